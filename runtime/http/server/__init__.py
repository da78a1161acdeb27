"""An HTTP/1.1 server for few routes and small answers, on asyncio and httptools: bounded everywhere, no framework."""
