"""Catalogs of Iceberg tables: a database file beside a local warehouse, and none but the warehouse itself on a store.

On a store, tables lie as Hadoop's catalog of Iceberg has them (HadoopTableOperations): NAMESPACE/NAME/metadata has a
file `vN.metadata.json` for each version, and `version-hint.text` with the newest N, or one a little older. A commit
creates the file of the next version; of several writers, one succeeds.
"""

from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from sqlalchemy.exc import DBAPIError

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import local_folder
from magnetar.spark.jobs.tables.iceberg_files import WarehouseFiles
from magnetar.spark.jobs.tables.table_rules import CATALOG_FILE

HINT = "version-hint.text"


def open_catalog(warehouse: Place) -> Catalog:
    """Opens the catalog of a warehouse, or creates it. Raises JobFailed, which names the catalog's file, when that file
    cannot be written or is damaged."""
    if not warehouse.is_local:
        return WarehouseCatalog(warehouse)
    folder = local_folder(warehouse.url)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / CATALOG_FILE
    try:
        return SqlCatalog("magnetar", uri=f"sqlite:///{file}", warehouse=f"file://{folder}")
    except DBAPIError as error:
        raise JobFailed(f"{file}: {error.orig}") from error


class WarehouseCatalog(NoopCatalog):
    """The tables of a warehouse without a catalog of its own. It creates, loads and changes tables, and nothing
    else."""

    def __init__(self, warehouse: Place) -> None:
        super().__init__("magnetar", warehouse=warehouse.url)
        self._warehouse = warehouse
        self._store = warehouse.open()
        self._files = WarehouseFiles(warehouse)

    def create_namespace(self, namespace: Any, properties: Any = None) -> None:
        """Has no effect: a namespace is a folder, which is there with its first table."""

    def table_exists(self, identifier: Any) -> bool:
        return self._newest(_folder(identifier)) is not None

    def load_table(self, identifier: Any) -> Table:
        newest = self._newest(_folder(identifier))
        if newest is None:
            raise NoSuchTableError(
                f"{self._warehouse.url} has no table {'.'.join(self.identifier_to_tuple(identifier))}"
            )
        return self._table(identifier, *newest)

    def create_table(
        self,
        identifier: Any,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = UNPARTITIONED_PARTITION_SPEC,
        sort_order: Any = UNSORTED_SORT_ORDER,
        properties: Any = None,
    ) -> Table:
        folder = _folder(identifier)
        metadata = new_table_metadata(
            location=location or self._warehouse.below(folder).url,
            schema=self._convert_schema_if_needed(schema),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties or {},
        )
        if not self._create(folder, 1, metadata):
            raise TableAlreadyExistsError(f"{self._warehouse.url} has a table {identifier}")
        return self._table(identifier, 1, metadata)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Writes the next version of a table. Raises CommitFailedException when another writer was first."""
        folder = _folder(table.name())
        newest = self._newest(folder)
        if newest is None:
            raise NoSuchTableError(f"{self._warehouse.below(folder).url} is gone")
        number, metadata = newest
        for requirement in requirements:
            requirement.validate(metadata)
        changed = update_table_metadata(metadata, updates, metadata_location=self._location(folder, number))
        if changed != metadata:
            number += 1
            if not self._create(folder, number, changed):
                raise CommitFailedException(f"another writer has made version {number} of {'.'.join(table.name())}")
        location = self._location(folder, number)
        return CommitTableResponse.model_validate({"metadata": changed, "metadata-location": location})

    def _newest(self, folder: str) -> tuple[int, TableMetadata] | None:
        """Returns number and content of the newest version. The hint may be old, or missing, when a writer was killed
        after its commit; so the versions after it are looked for."""
        hint = self._store.read(f"{folder}/metadata/{HINT}")
        number = int(hint) if hint else 1
        found = self._store.read(_file(folder, number))
        if found is None:
            return None
        while (later := self._store.read(_file(folder, number + 1))) is not None:
            number, found = number + 1, later
        return number, TableMetadataUtil.parse_raw(found.decode())

    def _create(self, folder: str, number: int, metadata: TableMetadata) -> bool:
        created = self._store.create(_file(folder, number), metadata.model_dump_json(exclude_none=True).encode())
        if created:
            self._store.write(f"{folder}/metadata/{HINT}", b"%d" % number)
        return created

    def _table(self, identifier: Any, number: int, metadata: TableMetadata) -> Table:
        location = self._location(_folder(identifier), number)
        return Table(self.identifier_to_tuple(identifier), metadata, location, self._files, self)

    def _location(self, folder: str, number: int) -> str:
        return self._warehouse.below(_file(folder, number)).url


def _folder(identifier: Any) -> str:
    return "/".join(Catalog.identifier_to_tuple(identifier))


def _file(folder: str, number: int) -> str:
    return f"{folder}/metadata/v{number}.metadata.json"
