"""Our ZooKeeper server in the seat of Apache's."""

from compat_tests.cluster.seats import TICK_MS, MetadataSeat
from compat_tests.products import interpreter


class OwnZooKeeper(MetadataSeat):
    """`magnetar zookeeper`, with the settings that Java's has in these tests."""

    def command(self) -> list[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        conf = self.folder / "zoo.cfg"
        conf.write_text(
            f"tickTime={TICK_MS}\ndataDir={data}\nclientPort={self.port}\nclientPortAddress={self.host}\n"
            f"maxClientCnxns=0\nminSessionTimeout={2 * TICK_MS}\nmaxSessionTimeout=60000\n4lw.commands.whitelist=*\n"
        )
        return [*interpreter(), "-m", "magnetar", "zookeeper", "--conf", str(conf)]
