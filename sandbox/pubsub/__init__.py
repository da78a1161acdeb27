"""Google Pub/Sub on this machine: publish, pull and push in Google's wire form, with what each needs in the cloud."""
