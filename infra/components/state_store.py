"""The Firestore database that holds runs, claims and dead letters."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.settings import StackSettings
from runtime.contract import names


@dataclass(frozen=True, kw_only=True)
class StateStoreArgs:
    """How the database is set up."""

    settings: StackSettings


class StateStore(pulumi.ComponentResource):
    """A Firestore database with its TTL policies and composite indexes.

    Does not grant access: each service's grant is with the service. Does not write documents, and sets up no backups.
    """

    database: gcp.firestore.Database
    ready: list[pulumi.Resource]
    """What must exist before a service reads or writes."""

    def __init__(self, name: str, args: StateStoreArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:StateStore", name, {}, opts)
        self._settings = args.settings
        self.database = self._create_database(name)
        fields = [self._create_ttl(name, collection) for collection in names.TTL_COLLECTIONS]
        indexes = [self._create_index(name, collection, fields_) for collection, fields_ in names.INDEXES]
        self.ready = [self.database, *fields, *indexes]
        self.register_outputs({"database": self.database.name})

    def _create_database(self, name: str) -> gcp.firestore.Database:
        protected = self._settings.deletion_protection
        return gcp.firestore.Database(
            f"{name}-database",
            name=self._settings.names.database,
            project=self._settings.project,
            location_id=self._settings.region,
            type="FIRESTORE_NATIVE",
            delete_protection_state="DELETE_PROTECTION_ENABLED" if protected else "DELETE_PROTECTION_DISABLED",
            # Left to its default, a destroyed stack would leave the database behind and could not be created again.
            deletion_policy="DELETE",
            opts=pulumi.ResourceOptions(parent=self, protect=protected),
        )

    def _create_ttl(self, name: str, collection: str) -> gcp.firestore.Field:
        return gcp.firestore.Field(
            f"{name}-ttl-{collection}",
            project=self._settings.project,
            database=self.database.name,
            collection=f"{self._settings.collection_prefix}{collection}",
            field=names.TTL_FIELD,
            ttl_config={},
            # No query reads the field, and an index of ever later times would be a hot spot.
            index_config={},
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _create_index(self, name: str, collection: str, fields: tuple[tuple[str, str], ...]) -> gcp.firestore.Index:
        return gcp.firestore.Index(
            f"{name}-index-{collection}-{'-'.join(field for field, _ in fields)}",
            project=self._settings.project,
            database=self.database.name,
            collection=f"{self._settings.collection_prefix}{collection}",
            fields=[gcp.firestore.IndexFieldArgs(field_path=field, order=order) for field, order in fields],
            opts=pulumi.ResourceOptions(parent=self),
        )
