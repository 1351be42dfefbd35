"""Random histories of a subscription, held against the claims of `dispatch_model`."""

from tests.server.topics.subscriptions.dispatch_histories import (
    LIMITS,
    AutoSplitHistories,
    DisorderHistories,
    ExclusiveHistories,
    FailoverHistories,
    RingHistories,
    SharedHistories,
    StickyHistories,
)

TestSharedHistories = SharedHistories.TestCase
TestSharedHistories.settings = LIMITS
TestRingHistories = RingHistories.TestCase
TestRingHistories.settings = LIMITS
TestAutoSplitHistories = AutoSplitHistories.TestCase
TestAutoSplitHistories.settings = LIMITS
TestStickyHistories = StickyHistories.TestCase
TestStickyHistories.settings = LIMITS
TestDisorderHistories = DisorderHistories.TestCase
TestDisorderHistories.settings = LIMITS
TestFailoverHistories = FailoverHistories.TestCase
TestFailoverHistories.settings = LIMITS
TestExclusiveHistories = ExclusiveHistories.TestCase
TestExclusiveHistories.settings = LIMITS
