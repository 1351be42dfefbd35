"""Builds the strategies that the configuration names."""

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.average_shedder_rules import AvgShedder
from magnetar.server.load.placement_strategy_rules import (
    LeastLongTermMessageRate,
    LeastResourceUsageWithWeight,
    PlacementStrategy,
    RoundRobinBrokerSelector,
)
from magnetar.server.load.shedding_rules import (
    OverloadShedder,
    SheddingStrategy,
    ThresholdShedder,
    UniformLoadShedder,
)


def strategies_of(settings: LoadSettings) -> tuple[PlacementStrategy, SheddingStrategy]:
    """Returns the strategies for placement and for shedding. If AvgShedder is configured for both, both are one
    object."""
    average = AvgShedder()
    placements: dict[str, PlacementStrategy] = {
        "LeastLongTermMessageRate": LeastLongTermMessageRate(),
        "LeastResourceUsageWithWeight": LeastResourceUsageWithWeight(),
        "RoundRobinBrokerSelector": RoundRobinBrokerSelector(),
        "AvgShedder": average,
    }
    shedders: dict[str, SheddingStrategy] = {
        "ThresholdShedder": ThresholdShedder(),
        "OverloadShedder": OverloadShedder(),
        "UniformLoadShedder": UniformLoadShedder(),
        "AvgShedder": average,
    }
    return placements[settings.placement], shedders[settings.shedder]
