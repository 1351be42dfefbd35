"""Makes a new metadata file of records that were copied from another one (`records_copy`)."""

from collections.abc import Sequence

from magnetar.metadata.embedded.file_format import RecordTotals, RowChange
from magnetar.metadata.embedded.record_file import RecordFile
from magnetar.metadata.embedded.record_rows import RECORDS, Row, load_tree
from magnetar.metadata.embedded.stored_metadata import faults_named, read_stored
from magnetar.metadata.embedded.witness import Witness
from magnetar.metadata.errors import StoreMismatchError


def restore_records(path: str, rows: Sequence[Row], witness: Witness) -> None:
    """Makes the file with exactly these records, which come by ascending path, and its witness. All records appear with
    one commit. The file begins a history of its own. The call blocks.

    Raises StoreDamagedError for records that contradict their checksums, StoreMismatchError when there is a file
    already, and StoreFileError when the file or the witness cannot be written.
    """
    _, totals = load_tree(path, rows)
    stored = read_stored(path, None, None, RECORDS)
    if not stored.is_new:
        raise StoreMismatchError(path, "is there already")
    with faults_named(path):
        file = RecordFile.open(stored)
        try:
            file.write(RowChange(list(rows), [], RecordTotals(*totals)))
            file.begin_witness(witness)
        finally:
            file.close()
