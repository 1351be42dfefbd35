import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.LongRunningProcessStatus;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.policies.data.AuthAction;
import org.apache.pulsar.common.policies.data.AutoTopicCreationOverride;
import org.apache.pulsar.common.policies.data.BacklogQuota;
import org.apache.pulsar.common.policies.data.ClusterData;
import org.apache.pulsar.common.policies.data.DelayedDeliveryPolicies;
import org.apache.pulsar.common.policies.data.DispatchRate;
import org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode;
import org.apache.pulsar.common.policies.data.InactiveTopicPolicies;
import org.apache.pulsar.common.policies.data.PartitionedTopicInternalStats;
import org.apache.pulsar.common.policies.data.PersistencePolicies;
import org.apache.pulsar.common.policies.data.PersistentTopicInternalStats;
import org.apache.pulsar.common.policies.data.PublishRate;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy;
import org.apache.pulsar.common.policies.data.SubscribeRate;
import org.apache.pulsar.common.policies.data.SubscriptionStats;
import org.apache.pulsar.common.policies.data.TenantInfo;
import org.apache.pulsar.common.policies.data.TopicStats;
import org.apache.pulsar.common.policies.data.TopicType;
import org.apache.pulsar.common.schema.SchemaInfo;

/** Checks of the admin client, for versions since 2.8. */
public class Administrating extends Checks {
    public static class First {
        public String name;
    }

    static final BacklogQuota.BacklogQuotaType AGE = BacklogQuota.BacklogQuotaType.message_age;
    static PulsarAdmin admin;

    public static void list() throws Exception {
        admin = PulsarAdmin.builder().serviceHttpUrl(web).build();
        add("admin_clusters", Administrating::clusters);
        add("admin_tenants", Administrating::tenants);
        add("admin_namespace_policies", Administrating::namespacePolicies);
        add("admin_topics", Administrating::topics);
        add("admin_partitioned", Administrating::partitioned);
        add("admin_stats", Administrating::stats);
        add("admin_cursors", Administrating::cursors);
        add("admin_peek", Administrating::peek);
        add("admin_schemas", Administrating::schemas);
        add("admin_topic_policies", Administrating::topicPolicies);
        add("admin_compaction", Administrating::compaction);
        add("admin_terminate", Administrating::terminate);
        add("admin_brokers", Administrating::brokers);
        add("admin_lookup", Administrating::lookup);
        add("admin_backlog_quota", Administrating::backlogQuota);
    }

    interface Act {
        void run() throws Exception;
    }

    static String refused(Act act) throws Exception {
        return failure(() -> {
            act.run();
            return null;
        });
    }

    private static void clusters(String topic) throws Exception {
        same(Arrays.asList("standalone"), admin.clusters().getClusters());
        String name = topic.substring(topic.lastIndexOf('/') + 1);
        ClusterData elsewhere = ClusterData.builder().serviceUrl("http://127.0.0.1:1").build();
        admin.clusters().createCluster(name, elsewhere);
        same("http://127.0.0.1:1", admin.clusters().getCluster(name).getServiceUrl());
        same("ConflictException", refused(() -> admin.clusters().createCluster(name, elsewhere)));
        admin.clusters().deleteCluster(name);
        same("NotFoundException", refused(() -> admin.clusters().getCluster(name)));
        same(0, admin.clusters().getFailureDomains("standalone").size());
    }

    private static TenantInfo tenant() {
        return TenantInfo.builder().adminRoles(new HashSet<>(Arrays.asList("boss")))
                .allowedClusters(new HashSet<>(Arrays.asList("standalone"))).build();
    }

    private static void tenants(String topic) throws Exception {
        String name = topic.substring(topic.lastIndexOf('/') + 1);
        admin.tenants().createTenant(name, tenant());
        same(tenant(), admin.tenants().getTenantInfo(name));
        same("ConflictException", refused(() -> admin.tenants().createTenant(name, tenant())));
        admin.namespaces().createNamespace(name + "/a", 8);
        same("ConflictException", refused(() -> admin.namespaces().createNamespace(name + "/a")));
        same(Arrays.asList(name + "/a"), admin.namespaces().getNamespaces(name));
        same(8, admin.namespaces().getBundles(name + "/a").getNumBundles());
        same("ConflictException", refused(() -> admin.tenants().deleteTenant(name)));
        admin.topics().createNonPartitionedTopic("persistent://" + name + "/a/t");
        holds(!refused(() -> admin.namespaces().deleteNamespace(name + "/a")).equals("nothing"), "not empty");
        admin.topics().delete("persistent://" + name + "/a/t");
        admin.namespaces().unload(name + "/a");
        admin.namespaces().deleteNamespace(name + "/a");
        admin.tenants().deleteTenant(name);
        same("NotFoundException", refused(() -> admin.tenants().getTenantInfo(name)));
        same("NotFoundException", refused(() -> admin.namespaces().createNamespace(name + "/b")));
    }

    private static void namespacePolicies(String topic) throws Exception {
        String name = "public/" + topic.substring(topic.lastIndexOf('/') + 1);
        admin.namespaces().createNamespace(name);
        admin.namespaces().setRetention(name, new RetentionPolicies(10, 100));
        same(new RetentionPolicies(10, 100), admin.namespaces().getRetention(name));
        admin.namespaces().setNamespaceMessageTTL(name, 60);
        same(60, admin.namespaces().getNamespaceMessageTTL(name));
        admin.namespaces().removeNamespaceMessageTTL(name);
        same(null, admin.namespaces().getNamespaceMessageTTL(name));
        admin.namespaces().setPersistence(name, new PersistencePolicies(1, 1, 1, 2.0));
        same(new PersistencePolicies(1, 1, 1, 2.0), admin.namespaces().getPersistence(name));
        DispatchRate rate = DispatchRate.builder().dispatchThrottlingRateInMsg(100).dispatchThrottlingRateInByte(1000)
                .ratePeriodInSecond(1).build();
        admin.namespaces().setDispatchRate(name, rate);
        same(rate, admin.namespaces().getDispatchRate(name));
        admin.namespaces().setSubscriptionDispatchRate(name, rate);
        same(rate, admin.namespaces().getSubscriptionDispatchRate(name));
        admin.namespaces().setPublishRate(name, new PublishRate(5, 6));
        same(new PublishRate(5, 6), admin.namespaces().getPublishRate(name));
        admin.namespaces().setSubscribeRate(name, new SubscribeRate(7, 8));
        same(new SubscribeRate(7, 8), admin.namespaces().getSubscribeRate(name));
        admin.namespaces().setDeduplicationStatus(name, true);
        same(true, admin.namespaces().getDeduplicationStatus(name));
        admin.namespaces().setAutoTopicCreation(name, AutoTopicCreationOverride.builder().allowAutoTopicCreation(true)
                .topicType(TopicType.PARTITIONED.toString()).defaultNumPartitions(3).build());
        same(3, admin.namespaces().getAutoTopicCreation(name).getDefaultNumPartitions());
        admin.namespaces().removeAutoTopicCreation(name);
        admin.namespaces().grantPermissionOnNamespace(name, "r1", Collections.singleton(AuthAction.produce));
        same(Collections.singleton(AuthAction.produce), admin.namespaces().getPermissions(name).get("r1"));
        admin.namespaces().revokePermissionsOnNamespace(name, "r1");
        admin.namespaces().setSchemaCompatibilityStrategy(name, SchemaCompatibilityStrategy.BACKWARD);
        same(SchemaCompatibilityStrategy.BACKWARD, admin.namespaces().getSchemaCompatibilityStrategy(name));
        admin.namespaces().setSchemaValidationEnforced(name, true);
        same(true, admin.namespaces().getSchemaValidationEnforced(name));
        admin.namespaces().setIsAllowAutoUpdateSchema(name, false);
        same(false, admin.namespaces().getIsAllowAutoUpdateSchema(name));
        admin.namespaces().setMaxProducersPerTopic(name, 3);
        same(3, admin.namespaces().getMaxProducersPerTopic(name));
        admin.namespaces().setMaxConsumersPerSubscription(name, 4);
        same(4, admin.namespaces().getMaxConsumersPerSubscription(name));
        admin.namespaces().setCompactionThreshold(name, 1000);
        same(1000L, admin.namespaces().getCompactionThreshold(name));
        admin.namespaces().setOffloadThreshold(name, 1000);
        same(1000L, admin.namespaces().getOffloadThreshold(name));
        DelayedDeliveryPolicies delayed = DelayedDeliveryPolicies.builder().active(false).tickTime(500).build();
        admin.namespaces().setDelayedDeliveryMessages(name, delayed);
        same(500L, admin.namespaces().getDelayedDelivery(name).getTickTime());
        InactiveTopicPolicies inactive =
                new InactiveTopicPolicies(InactiveTopicDeleteMode.delete_when_no_subscriptions, 100, true);
        admin.namespaces().setInactiveTopicPolicies(name, inactive);
        same(inactive, admin.namespaces().getInactiveTopicPolicies(name));
        Set<SubscriptionType> types = new HashSet<>(Arrays.asList(SubscriptionType.Shared));
        admin.namespaces().setSubscriptionTypesEnabled(name, types);
        same(types, admin.namespaces().getSubscriptionTypesEnabled(name));
        admin.namespaces().setEncryptionRequiredStatus(name, true);
        admin.namespaces().setNamespaceReplicationClusters(name, new HashSet<>(Arrays.asList("standalone")));
        same(Arrays.asList("standalone"), admin.namespaces().getNamespaceReplicationClusters(name));
        admin.namespaces().setProperty(name, "a", "b");
        same("b", admin.namespaces().getProperty(name, "a"));
        same(new RetentionPolicies(10, 100), admin.namespaces().getPolicies(name).retention_policies);
        admin.namespaces().splitNamespaceBundle(name, "0x00000000_0x40000000", false, null);
        same(5, admin.namespaces().getBundles(name).getNumBundles());
        admin.namespaces().clearNamespaceBacklog(name);
        admin.namespaces().deleteNamespace(name);
    }

    private static void topics(String topic) throws Exception {
        admin.topics().createNonPartitionedTopic(topic);
        same("ConflictException", refused(() -> admin.topics().createNonPartitionedTopic(topic)));
        holds(admin.topics().getList("public/default").contains(topic), "it is listed");
        same(0, admin.topics().getPartitionedTopicMetadata(topic).partitions);
        admin.topics().createSubscription(topic, "s", MessageId.earliest);
        same("ConflictException", refused(() -> admin.topics().createSubscription(topic, "s", MessageId.latest)));
        same(Arrays.asList("s"), admin.topics().getSubscriptions(topic));
        admin.topics().grantPermission(topic, "r1", Collections.singleton(AuthAction.consume));
        same(Collections.singleton(AuthAction.consume), admin.topics().getPermissions(topic).get("r1"));
        admin.topics().revokePermissions(topic, "r1");
        same("PreconditionFailedException", refused(() -> {
            try (Producer<byte[]> producer = producer(topic).create()) {
                admin.topics().delete(topic);
            }
        }));
        admin.topics().unload(topic);
        admin.topics().deleteSubscription(topic, "s");
        admin.topics().delete(topic, true);
        same("NotFoundException", refused(() -> admin.topics().getStats(topic)));
        same("NotFoundException", refused(() -> admin.topics().delete(topic)));
        same("NotFoundException", refused(() -> admin.topics().getSubscriptions(topic)));
    }

    private static void partitioned(String topic) throws Exception {
        admin.topics().createPartitionedTopic(topic, 2);
        same("ConflictException", refused(() -> admin.topics().createPartitionedTopic(topic, 2)));
        admin.topics().createSubscription(topic, "s", MessageId.latest);
        admin.topics().updatePartitionedTopic(topic, 4);
        same(4, admin.topics().getPartitionedTopicMetadata(topic).partitions);
        holds(admin.topics().getPartitionedTopicList("public/default").contains(topic), "it is listed");
        same(4, admin.topics().getPartitionedStats(topic, true).getPartitions().size());
        same(2, admin.topics().getPartitionedStats(topic, false).getSubscriptions().size() + 1);
        PartitionedTopicInternalStats internal = admin.topics().getPartitionedInternalStats(topic);
        same(4, internal.partitions.size());
        admin.topics().createMissedPartitions(topic);
        same("[s]", admin.topics().getSubscriptions(topic).toString());
        admin.topics().deletePartitionedTopic(topic);
        same("NotFoundException", refused(() -> admin.topics().getPartitionedTopicMetadata(topic)));
    }

    private static void stats(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).consumerName("c").property("a", "b").subscribe();
        Producer<byte[]> producer = producer(topic).producerName("p").property("c", "d").enableBatching(false).create();
        send(producer, 0, 5);
        consumer.acknowledge(next(consumer));
        until("acknowledged", () -> admin.topics().getStats(topic).getSubscriptions().get("s").getMsgBacklog() == 4);
        TopicStats stats = admin.topics().getStats(topic, true, true);
        same(5L, stats.getMsgInCounter());
        same("p", stats.getPublishers().get(0).getProducerName());
        same("d", stats.getPublishers().get(0).getMetadata().get("c"));
        SubscriptionStats subscription = stats.getSubscriptions().get("s");
        same("Exclusive", subscription.getType());
        same("c", subscription.getActiveConsumerName());
        same("b", subscription.getConsumers().get(0).getMetadata().get("a"));
        holds(subscription.getConsumers().get(0).getClientVersion() != null, "a client's version");
        PersistentTopicInternalStats internal = admin.topics().getInternalStats(topic);
        same(5L, internal.numberOfEntries);
        holds(internal.cursors.containsKey("s"), "a cursor");
        same(1, internal.ledgers.size());
        holds(admin.topics().getInternalInfo(topic) != null, "internal info");
    }

    private static void cursors(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        Producer<byte[]> producer = producer(topic).enableBatching(false).create();
        List<MessageId> ids = new ArrayList<>();
        for (int at = 0; at < 10; at++) {
            ids.add(producer.send(("m" + at).getBytes()));
        }
        consumer.acknowledgeCumulative(ids.get(9));
        consumer.close();
        until("all are acknowledged", () -> backlog(topic) == 0);
        admin.topics().resetCursor(topic, "s", System.currentTimeMillis() - 3_600_000);
        same(10L, backlog(topic));
        admin.topics().skipMessages(topic, "s", 3);
        same(7L, backlog(topic));
        admin.topics().resetCursor(topic, "s", ids.get(5));
        same(5L, backlog(topic));
        admin.topics().resetCursor(topic, "s", ids.get(5), true);
        same(ids.get(9), admin.topics().getLastMessageId(topic));
        admin.topics().expireMessages(topic, "s", 3_600);
        admin.topics().skipAllMessages(topic, "s");
        same(0L, backlog(topic));
        same("NotFoundException", refused(() -> admin.topics().skipAllMessages(topic, "none")));
        consumer(topic).subscribe();
        same("PreconditionFailedException", refused(() -> admin.topics().deleteSubscription(topic, "s")));
        admin.topics().deleteSubscription(topic, "s", true);
    }

    private static long backlog(String topic) throws PulsarAdminException {
        return admin.topics().getStats(topic).getSubscriptions().get("s").getMsgBacklog();
    }

    private static void peek(String topic) throws Exception {
        consumer(topic).subscribe().close();
        Producer<byte[]> producer = producer(topic).compressionType(org.apache.pulsar.client.api.CompressionType.LZ4)
                .batchingMaxPublishDelay(1, TimeUnit.HOURS).create();
        for (int at = 0; at < 3; at++) {
            producer.newMessage().key("k" + at).property("p", "" + at).value(("m" + at).getBytes()).sendAsync();
        }
        producer.flush();
        List<Message<byte[]>> peeked = admin.topics().peekMessages(topic, "s", 3);
        same(3, peeked.size());
        same("m2", text(peeked.get(2)));
        same("2", peeked.get(2).getProperty("p"));
        String[] id = producer(topic).enableBatching(false).create().newMessage().key("k").property("p", "q")
                .value("m3".getBytes()).send().toString().split(":");
        Message<byte[]> got = admin.topics().getMessageById(topic, Long.parseLong(id[0]), Long.parseLong(id[1]));
        same("m3", text(got));
        // Clients before 3.3 look for properties in a place where neither Apache 4.0 nor this server puts them.
        same(MINOR >= 15 ? "q" : null, got.getProperty("p"));
        same("k", got.getKey());
        same("m3", text(admin.topics().examineMessage(topic, "latest", 1)));
        same("m0", text(admin.topics().examineMessage(topic, "earliest", 1)));
    }

    private static void schemas(String topic) throws Exception {
        same("NotFoundException", refused(() -> admin.schemas().getSchemaInfo(topic)));
        admin.schemas().createSchema(topic, Schema.JSON(First.class).getSchemaInfo());
        SchemaInfo first = Schema.JSON(First.class).getSchemaInfo();
        same(first.getSchemaDefinition(), admin.schemas().getSchemaInfo(topic).getSchemaDefinition());
        same(0L, admin.schemas().getSchemaInfoWithVersion(topic).getVersion());
        same(1, admin.schemas().getAllSchemas(topic).size());
        same(true, admin.schemas().testCompatibility(topic, first).isCompatibility());
        same(0L, admin.schemas().getVersionBySchema(topic, Schema.JSON(First.class).getSchemaInfo()));
        same("ConflictException", refused(() -> admin.schemas().createSchema(topic, Schema.STRING.getSchemaInfo())));
        client.newProducer(Schema.JSON(First.class)).topic(topic).create().send(new First());
        admin.schemas().deleteSchema(topic);
        same("NotFoundException", refused(() -> admin.schemas().getSchemaInfo(topic)));
    }

    private static void topicPolicies(String topic) throws Exception {
        admin.topics().createNonPartitionedTopic(topic);
        admin.topics().setMessageTTL(topic, 30);
        until("ttl", () -> Integer.valueOf(30).equals(admin.topics().getMessageTTL(topic)));
        admin.topics().setRetention(topic, new RetentionPolicies(1, 2));
        until("retention", () -> new RetentionPolicies(1, 2).equals(admin.topics().getRetention(topic)));
        admin.topics().setMaxProducers(topic, 1);
        until("producers", () -> Integer.valueOf(1).equals(admin.topics().getMaxProducers(topic)));
        producer(topic).create();
        same("ProducerBusyException", failure(() -> producer(topic).create()));
        admin.topics().setPublishRate(topic, new PublishRate(100, 1000));
        until("rate", () -> new PublishRate(100, 1000).equals(admin.topics().getPublishRate(topic)));
        admin.topics().setCompactionThreshold(topic, 5);
        until("threshold", () -> Long.valueOf(5).equals(admin.topics().getCompactionThreshold(topic)));
        admin.topics().setDeduplicationStatus(topic, true);
        until("deduplication", () -> Boolean.TRUE.equals(admin.topics().getDeduplicationStatus(topic)));
        admin.topics().setPersistence(topic, new PersistencePolicies(1, 1, 1, 0.5));
        until("persistence", () -> new PersistencePolicies(1, 1, 1, 0.5).equals(admin.topics().getPersistence(topic)));
        admin.topics().removeRetention(topic);
        until("no retention", () -> admin.topics().getRetention(topic) == null);
        DispatchRate rate = DispatchRate.builder().dispatchThrottlingRateInMsg(100).dispatchThrottlingRateInByte(-1)
                .ratePeriodInSecond(1).build();
        admin.topics().setDispatchRate(topic, rate);
        until("dispatch", () -> rate.equals(admin.topics().getDispatchRate(topic)));
        admin.topics().setSubscriptionTypesEnabled(topic, new HashSet<>(Arrays.asList(SubscriptionType.Shared)));
        until("types", () -> failure(() -> consumer(topic).subscribe()).equals("NotAllowedException"));
    }

    private static void compaction(String topic) throws Exception {
        Producer<byte[]> producer = producer(topic).create();
        for (int at = 0; at < 6; at++) {
            producer.newMessage().key("k").value(("m" + at).getBytes()).send();
        }
        same(LongRunningProcessStatus.Status.NOT_RUN, admin.topics().compactionStatus(topic).status);
        admin.topics().triggerCompaction(topic);
        until("compacted", () ->
                admin.topics().compactionStatus(topic).status == LongRunningProcessStatus.Status.SUCCESS);
        String said = refused(() -> admin.topics().triggerOffload(topic, admin.topics().getLastMessageId(topic)));
        holds(!said.equals("nothing") || admin.topics().offloadStatus(topic) != null, "an answer to offloading");
    }

    private static void terminate(String topic) throws Exception {
        Producer<byte[]> producer = producer(topic).create();
        MessageId last = producer.send("m".getBytes());
        same(last.toString().split(":")[0], admin.topics().terminateTopicAsync(topic).get().toString().split(":")[0]);
        same("TopicTerminatedException", failure(() -> producer(topic).create()));
        admin.topics().createPartitionedTopic(topic + "-p", 2);
        same("NotAllowedException", refused(() -> admin.topics().terminateTopic(topic + "-p")));
    }

    private static void brokers(String topic) throws Exception {
        admin.brokers().healthcheck();
        same(1, admin.brokers().getActiveBrokers("standalone").size());
        holds(admin.brokers().getRuntimeConfigurations().size() > 10, "configuration");
        holds(admin.brokers().getDynamicConfigurationNames() != null, "names");
        holds(admin.brokers().getLeaderBroker().getServiceUrl() != null, "leader");
        holds(admin.brokers().getInternalConfigurationData() != null, "internal");
        admin.brokers().backlogQuotaCheck();
    }

    private static void lookup(String topic) throws Exception {
        holds(admin.lookups().lookupTopic(topic).startsWith("pulsar://"), "lookup");
        holds(admin.lookups().getBundleRange(topic).startsWith("0x"), "range");
        admin.topics().createPartitionedTopic(topic, 2);
        holds(admin.namespaces().getTopics("public/default").contains(topic + "-partition-1"), "partitions are listed");
    }

    private static void backlogQuota(String topic) throws Exception {
        String name = "public/" + topic.substring(topic.lastIndexOf('/') + 1);
        admin.namespaces().createNamespace(name);
        admin.namespaces().setBacklogQuota(name, BacklogQuota.builder().limitSize(1000)
                .retentionPolicy(BacklogQuota.RetentionPolicy.producer_exception).build());
        BacklogQuota got =
                admin.namespaces().getBacklogQuotaMap(name).get(BacklogQuota.BacklogQuotaType.destination_storage);
        same(1000L, got.getLimitSize());
        same(BacklogQuota.RetentionPolicy.producer_exception, got.getPolicy());
        admin.namespaces().setBacklogQuota(name, BacklogQuota.builder().limitTime(100)
                .retentionPolicy(BacklogQuota.RetentionPolicy.consumer_backlog_eviction).build(), AGE);
        same(100, admin.namespaces().getBacklogQuotaMap(name).get(AGE).getLimitTime());
        admin.namespaces().removeBacklogQuota(name);
        same(1, admin.namespaces().getBacklogQuotaMap(name).size());
    }
}
