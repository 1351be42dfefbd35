"""What follows from where Spark runs."""

import pytest

from magnetar.spark.shipping.cluster_rules import ExecutorsSettle, is_one_machine, may_change, workers_python


@pytest.mark.parametrize("master", ["local", "local[1]", "local[*]", "local[2, 3]"])
def test_on_one_machine_workers_run_the_drivers_own_python(master: str) -> None:
    assert is_one_machine(master)
    assert workers_python(master, "/env/bin/python", (3, 11)) == "/env/bin/python"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]", ""])
def test_on_other_machines_each_looks_up_the_drivers_version(master: str) -> None:
    assert not is_one_machine(master)
    assert workers_python(master, "/env/bin/python", (3, 11)) == "python3.11"


def test_executors_have_come_when_for_a_while_no_more_of_them_come() -> None:
    settle = ExecutorsSettle(100.0, quiet_seconds=1, seconds_max=15)
    assert not settle.are_there(103.0, 0)
    assert not settle.are_there(103.5, 1)
    assert not settle.are_there(104.4, 1)
    assert not settle.are_there(104.4, 2)
    assert not settle.are_there(105.3, 2)
    assert settle.are_there(105.4, 2)


def test_a_cluster_without_free_executors_is_not_waited_for_longer_than_that() -> None:
    settle = ExecutorsSettle(100.0, quiet_seconds=1, seconds_max=15)
    assert not settle.are_there(114.9, 0)
    assert settle.are_there(115.0, 0)


def test_with_dynamic_allocation_the_number_of_executors_says_nothing() -> None:
    assert may_change({"spark.dynamicAllocation.enabled": "TRUE"})
    assert not may_change({"spark.dynamicAllocation.enabled": "false"})
    assert not may_change({})
