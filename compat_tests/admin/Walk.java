// Every call of Apache's Java admin client, made once with generated arguments. For each a line on stdout, its parts
// divided by tabs: the call, `ok` or the HTTP status of its refusal, the reason.

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.*;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.transaction.TxnID;
import org.apache.pulsar.client.impl.MessageIdImpl;
import org.apache.pulsar.common.functions.*;
import org.apache.pulsar.common.io.SinkConfig;
import org.apache.pulsar.common.io.SourceConfig;
import org.apache.pulsar.common.policies.data.*;
import org.apache.pulsar.common.protocol.schema.PostSchemaPayload;
import org.apache.pulsar.common.schema.SchemaInfo;
import org.apache.pulsar.packages.management.core.common.PackageMetadata;

public class Walk {
    static final String CLUSTER = "standalone";
    static final String OTHER_CLUSTER = "other";
    static final String NEW_CLUSTER = "new-cluster";
    static final String TENANT = "walked";
    static final String NEW_TENANT = "new-tenant";
    static final String NAMESPACE = "walked/ns";
    static final String NEW_NAMESPACE = "walked/new";
    static final String TOPIC = "persistent://walked/ns/topic";
    static final String NEW_TOPIC = "persistent://walked/ns/new";
    static final String PARTITIONED = "persistent://walked/ns/partitioned";
    static final String NEW_PARTITIONED = "persistent://walked/ns/new-partitioned";
    static final String NON_PERSISTENT = "non-persistent://walked/ns/np";
    static final String BUNDLE = "0x00000000_0xffffffff";
    static final String SUBSCRIPTION = "sub";
    static final String GROUP = "group";
    static final String NEW_GROUP = "new-group";
    static final String PACKAGE = "function://walked/ns/f@1";

    static final Map<Class<?>, Object> VALUES = new HashMap<>();
    static final Map<String, Object[]> ARGUMENTS = new HashMap<>();

    static PulsarAdmin admin;
    static String broker;

    public static void main(String[] given) throws Exception {
        admin = PulsarAdmin.builder().serviceHttpUrl(given[0]).build();
        broker = admin.brokers().getActiveBrokers().get(0);
        String file = Files.createTempFile(Path.of(given[1]), "walk", ".jar").toString();
        MessageId last = makeAll();
        values(last);
        arguments(last, file);
        for (Call call : calls()) {
            prepare(call.method.getName());
            System.out.println(call + "\t" + made(call).replace('\n', ' '));
        }
        System.exit(0);
    }

    record Call(Object on, Class<?> type, Method method) {
        @Override
        public String toString() {
            List<String> kinds = new ArrayList<>();
            for (Class<?> kind : method.getParameterTypes()) {
                kinds.add(kind.getSimpleName());
            }
            return type.getSimpleName() + "." + method.getName() + "(" + String.join(", ", kinds) + ")";
        }
    }

    /** Returns all calls: those that make something first, those that end something last. */
    static List<Call> calls() throws Exception {
        List<Call> calls = new ArrayList<>();
        for (Method group : PulsarAdmin.class.getMethods()) {
            Class<?> type = group.getReturnType();
            boolean isGroup = type.isInterface() && type.getPackageName().equals(PulsarAdmin.class.getPackageName());
            if (!isGroup || Modifier.isStatic(group.getModifiers())) {
                continue;
            }
            Object on = group.getParameterCount() == 0 ? group.invoke(admin) : group.invoke(admin, true);
            for (Method method : type.getMethods()) {
                if (!method.getName().endsWith("Async")) {
                    calls.add(new Call(on, type, method));
                }
            }
        }
        calls.sort(Comparator.comparing((Call call) -> turn(call.method.getName())).thenComparing(Call::toString));
        return calls;
    }

    static int turn(String name) {
        if (name.matches("(create|set|grant|update|put|enable).*")) {
            return 0;
        }
        if (name.startsWith("shutDown")) {
            return 3;
        }
        return name.matches("(remove|revoke|delete|clear|unload|terminate|truncate|unsubscribe|reset).*") ? 2 : 1;
    }

    static String made(Call call) throws Exception {
        Object[] arguments = ARGUMENTS.get(call.type.getSimpleName() + "." + call.method.getName());
        Type[] types = call.method.getGenericParameterTypes();
        Object[] all = new Object[types.length];
        for (int index = 0; index < types.length; index++) {
            boolean isGiven = arguments != null && index < arguments.length && arguments[index] != null;
            all[index] = isGiven && fits(types[index], arguments[index]) ? arguments[index] : value(call, index, types[index]);
        }
        try {
            Object answer = call.method.invoke(call.on, all);
            if (answer instanceof CompletableFuture<?> future) {
                future.get(20, TimeUnit.SECONDS);
            }
            return "ok\t";
        } catch (Exception wrapped) {
            Throwable fault = wrapped;
            while (fault.getCause() != null && !(fault instanceof PulsarAdminException)) {
                fault = fault.getCause();
            }
            if (fault instanceof PulsarAdminException refused) {
                return refused.getStatusCode() + "\t" + (refused.getHttpError() == null ? refused : refused.getHttpError());
            }
            return "fault\t" + fault;
        }
    }

    static boolean fits(Type type, Object value) {
        Class<?> raw = type instanceof ParameterizedType full ? (Class<?>) full.getRawType() : (Class<?>) type;
        return raw.isPrimitive() || raw.isInstance(value);
    }

    static Object value(Call call, int index, Type type) {
        if (type == String.class) {
            return text(call, index);
        }
        if (type instanceof ParameterizedType full) {
            return container(call, index, full);
        }
        Class<?> raw = (Class<?>) type;
        if (VALUES.containsKey(raw)) {
            return VALUES.get(raw);
        }
        if (raw.isEnum()) {
            return raw.getEnumConstants()[0];
        }
        throw new IllegalStateException(call + " takes a " + raw);
    }

    static Object container(Call call, int index, ParameterizedType full) {
        Class<?> raw = (Class<?>) full.getRawType();
        if (raw == Map.class) {
            return full.getActualTypeArguments()[0] == String.class ? Map.of("key", "value") : Map.of();
        }
        Type inner = full.getActualTypeArguments()[0];
        Object member = inner == String.class ? CLUSTER : inner == Long.class ? Long.valueOf(1) : value(call, index, inner);
        if (raw == Optional.class) {
            return inner == String.class ? Optional.empty() : Optional.of(member);
        }
        return raw == List.class ? List.of(member) : raw == Set.class ? Set.of(member) : new LinkedHashSet<>(Set.of(member));
    }

    /** Returns a text argument: the first one names what the call is about, a later one a subscription or bundle. */
    static String text(Call call, int index) {
        if (index > 0) {
            return call.method.getName().contains("Bundle") && index == 1 ? BUNDLE : SUBSCRIPTION;
        }
        return switch (call.type.getSimpleName()) {
            case "Tenants", "Properties" -> TENANT;
            case "Namespaces", "ResourceQuotas" -> NAMESPACE;
            case "Clusters" -> OTHER_CLUSTER;
            case "Packages" -> PACKAGE;
            case "ResourceGroups" -> GROUP;
            case "Bookies" -> "127.0.0.1:3181";
            case "NonPersistentTopics" -> NON_PERSISTENT;
            default -> call.method.getName().contains("Partitioned") ? PARTITIONED : TOPIC;
        };
    }

    /** Before a call: restores what an earlier call may have deleted, and deletes what this one will make. */
    static void prepare(String name) {
        quietly(() -> admin.topics().createSubscription(TOPIC, SUBSCRIPTION, MessageId.earliest));
        if (name.equals("unload")) {
            quietly(() -> admin.topics().createNonPartitionedTopic(NON_PERSISTENT)); // It ends with its bundle's unload.
        }
        if (name.matches("(create|split).*")) {
            quietly(() -> admin.tenants().deleteTenant(NEW_TENANT));
            quietly(() -> admin.namespaces().deleteNamespace(NEW_NAMESPACE));
            quietly(() -> admin.clusters().deleteCluster(NEW_CLUSTER));
            quietly(() -> admin.topics().deletePartitionedTopic(NEW_PARTITIONED, true));
            quietly(() -> admin.topics().delete(NEW_TOPIC, true));
            quietly(() -> admin.topics().deleteSubscription(TOPIC, SUBSCRIPTION, true));
        }
        if (name.matches("(delete|remove|split).*")) {
            makeWhatIsDeleted();
        }
    }

    static void makeWhatIsDeleted() {
        quietly(() -> admin.tenants().createTenant(NEW_TENANT, tenant()));
        quietly(() -> admin.namespaces().createNamespace(NEW_NAMESPACE, 1));
        quietly(() -> admin.clusters().createCluster(NEW_CLUSTER, cluster()));
        quietly(() -> admin.topics().createPartitionedTopic(NEW_PARTITIONED, 2));
        quietly(() -> admin.topics().createNonPartitionedTopic(NEW_TOPIC));
        quietly(() -> admin.resourcegroups().createResourceGroup(NEW_GROUP, new ResourceGroup()));
    }

    /** Makes the tenant, namespace, topics and other objects that the calls use. */
    static MessageId makeAll() throws Exception {
        admin.tenants().createTenant(TENANT, tenant());
        admin.namespaces().createNamespace(NAMESPACE, 1);
        admin.clusters().createCluster(OTHER_CLUSTER, cluster());
        admin.topics().createPartitionedTopic(PARTITIONED, 2);
        admin.topics().createPartitionedTopic(NON_PERSISTENT + "-parted", 1);
        admin.topics().createNonPartitionedTopic(NON_PERSISTENT);
        admin.topics().createNonPartitionedTopic(TOPIC);
        admin.topics().createSubscription(TOPIC, SUBSCRIPTION, MessageId.earliest);
        admin.resourcegroups().createResourceGroup(GROUP, new ResourceGroup());
        String url = admin.lookups().lookupTopic(TOPIC);
        try (PulsarClient client = PulsarClient.builder().serviceUrl(url).build();
                Producer<byte[]> producer = client.newProducer().topic(TOPIC).enableBatching(false).create()) {
            for (int number = 0; number < 5; number++) {
                producer.send("message".getBytes());
            }
            return producer.send("last".getBytes());
        }
    }

    interface Work {
        void run() throws Exception;
    }

    static void quietly(Work work) {
        try {
            work.run();
        } catch (Exception expected) {
            // It fails when there is nothing to do, which is fine.
        }
    }

    static TenantInfo tenant() {
        return TenantInfo.builder().adminRoles(Set.of("boss")).allowedClusters(Set.of(CLUSTER)).build();
    }

    static ClusterData cluster() {
        return ClusterData.builder().serviceUrl("http://h:1").brokerServiceUrl("pulsar://h:2").build();
    }

    static void values(MessageId last) {
        for (Class<?> kind : List.of(int.class, Integer.class)) {
            VALUES.put(kind, 3);
        }
        for (Class<?> kind : List.of(long.class, Long.class)) {
            VALUES.put(kind, 1L);
        }
        VALUES.put(boolean.class, false);
        VALUES.put(TimeUnit.class, TimeUnit.MINUTES);
        VALUES.put(MessageId.class, last);
        VALUES.put(TxnID.class, new TxnID(1, 1));
        VALUES.put(GetStatsOptions.class, GetStatsOptions.builder().build());
        VALUES.put(ListTopicsOptions.class, ListTopicsOptions.EMPTY);
        VALUES.put(ListNamespaceTopicsOptions.class, ListNamespaceTopicsOptions.builder().build());
        VALUES.put(GrantTopicPermissionOptions.class, GrantTopicPermissionOptions.builder()
                .topic(TOPIC).role("listed").actions(Set.of(AuthAction.produce)).build());
        VALUES.put(RevokeTopicPermissionOptions.class, RevokeTopicPermissionOptions.builder()
                .topic(TOPIC).role("listed").build());
        VALUES.put(FunctionConfig.class, FunctionConfig.builder().tenant(TENANT).namespace("ns").name("f").build());
        VALUES.put(SinkConfig.class, SinkConfig.builder().tenant(TENANT).namespace("ns").name("f").build());
        VALUES.put(SourceConfig.class, SourceConfig.builder().tenant(TENANT).namespace("ns").name("f").build());
        VALUES.put(UpdateOptions.class, new UpdateOptionsImpl());
        VALUES.put(FunctionState.class, FunctionState.builder().key("k").stringValue("v").build());
        VALUES.put(PackageMetadata.class, PackageMetadata.builder().description("d").build());
        VALUES.put(TenantInfo.class, tenant());
        VALUES.put(ClusterData.class, cluster());
        VALUES.put(ClusterPolicies.ClusterUrl.class,
                new ClusterPolicies.ClusterUrl("http://h:1", null, "pulsar://h:2", null));
        VALUES.put(FailureDomain.class, FailureDomain.builder().brokers(Set.of(broker)).build());
        VALUES.put(NamespaceIsolationData.class, NamespaceIsolationData.builder()
                .namespaces(List.of("x/.*")).primary(List.of("b1")).secondary(List.of("b2"))
                .autoFailoverPolicy(AutoFailoverPolicyData.builder()
                        .policyType(AutoFailoverPolicyType.min_available)
                        .parameters(Map.of("min_limit", "1", "usage_threshold", "80")).build())
                .build());
        VALUES.put(BookieInfo.class, BookieInfo.builder().rack("/r1").hostname("h").build());
        VALUES.put(BookieAffinityGroupData.class, BookieAffinityGroupData.builder()
                .bookkeeperAffinityGroupPrimary("g1").bookkeeperAffinityGroupSecondary("g2").build());
        VALUES.put(BundlesData.class, BundlesData.builder().numBundles(1).build());
        VALUES.put(ResourceGroup.class, new ResourceGroup());
        VALUES.put(ResourceQuota.class, new ResourceQuota());
        policyValues();
    }

    static void policyValues() {
        VALUES.put(Policies.class, new Policies());
        VALUES.put(AutoSubscriptionCreationOverride.class,
                AutoSubscriptionCreationOverride.builder().allowAutoSubscriptionCreation(true).build());
        VALUES.put(AutoTopicCreationOverride.class, AutoTopicCreationOverride.builder()
                .allowAutoTopicCreation(true).topicType("non-partitioned").build());
        VALUES.put(BacklogQuota.class, BacklogQuota.builder().limitSize(1 << 20).limitTime(60)
                .retentionPolicy(BacklogQuota.RetentionPolicy.producer_exception).build());
        VALUES.put(DelayedDeliveryPolicies.class, DelayedDeliveryPolicies.builder().active(true).tickTime(1000).build());
        VALUES.put(DispatchRate.class, DispatchRate.builder().dispatchThrottlingRateInMsg(100)
                .dispatchThrottlingRateInByte(1000).ratePeriodInSecond(1).build());
        VALUES.put(EntryFilters.class, new EntryFilters("filter"));
        VALUES.put(InactiveTopicPolicies.class,
                new InactiveTopicPolicies(InactiveTopicDeleteMode.delete_when_no_subscriptions, 600, true));
        VALUES.put(OffloadPolicies.class, OffloadPolicies.builder().managedLedgerOffloadDriver("aws-s3")
                .managedLedgerOffloadBucket("b").managedLedgerOffloadRegion("us-west-2").build());
        VALUES.put(PersistencePolicies.class, new PersistencePolicies(1, 1, 1, 10.0));
        VALUES.put(PublishRate.class, new PublishRate(1000, 1 << 20));
        VALUES.put(RetentionPolicies.class, new RetentionPolicies(60, 100));
        VALUES.put(SubscribeRate.class, new SubscribeRate(10, 30));
        VALUES.put(SchemaAutoUpdateCompatibilityStrategy.class, SchemaAutoUpdateCompatibilityStrategy.AlwaysCompatible);
        VALUES.put(SchemaCompatibilityStrategy.class, SchemaCompatibilityStrategy.ALWAYS_COMPATIBLE);
        VALUES.put(SchemaInfo.class, Schema.STRING.getSchemaInfo());
        VALUES.put(PostSchemaPayload.class, new PostSchemaPayload("STRING", "", Map.of()));
    }

    /** Lists arguments that their types do not determine; null stands for the generated argument. */
    static void arguments(MessageId last, String file) {
        MessageIdImpl id = (MessageIdImpl) last;
        given("Brokers.getOwnedNamespaces", CLUSTER, broker);
        given("Brokers.getActiveBrokers", CLUSTER);
        given("Brokers.updateDynamicConfiguration", "dispatchThrottlingRatePerTopicInMsg", "100");
        given("Brokers.deleteDynamicConfiguration", "dispatchThrottlingRatePerTopicInMsg");
        given("Clusters.createCluster", NEW_CLUSTER);
        given("Clusters.deleteCluster", NEW_CLUSTER);
        for (String name : List.of("createTenant", "deleteTenant", "createProperty", "deleteProperty")) {
            given("Tenants." + name, NEW_TENANT);
            given("Properties." + name, NEW_TENANT);
        }
        given("ResourceGroups.createResourceGroup", NEW_GROUP);
        given("ResourceGroups.deleteResourceGroup", NEW_GROUP);
        given("Namespaces.createNamespace", NEW_NAMESPACE);
        given("Namespaces.deleteNamespace", NEW_NAMESPACE);
        given("Namespaces.deleteNamespaceBundle", NEW_NAMESPACE);
        given("Namespaces.getNamespaces", TENANT, CLUSTER);
        given("Namespaces.getAntiAffinityNamespaces", TENANT, CLUSTER, GROUP);
        given("Namespaces.setNamespaceResourceGroup", null, GROUP);
        given("Namespaces.splitNamespaceBundle", NEW_NAMESPACE, null, null, "range_equally_divide", List.of(1L << 30));
        given("Namespaces.setMaxTopicsPerNamespace", null, 1000);
        given("Namespaces.getTopicHashPositions", null, BUNDLE, List.of(TOPIC));
        given("Namespaces.unloadNamespaceBundle", null, null, broker);
        for (String name : List.of("getList", "getPartitionedTopicList", "getListInBundle")) {
            given("Topics." + name, NAMESPACE, null);
            given("NonPersistentTopics." + name, NAMESPACE, BUNDLE);
        }
        given("Topics.getListInBundle", NAMESPACE, BUNDLE);
        given("Topics.createPartitionedTopic", NEW_PARTITIONED);
        given("Topics.deletePartitionedTopic", NEW_PARTITIONED, true);
        given("Topics.createNonPartitionedTopic", NEW_TOPIC);
        given("Topics.createShadowTopic", NEW_TOPIC, TOPIC);
        given("Topics.setShadowTopics", TOPIC, List.of(PARTITIONED));
        given("Topics.delete", NEW_TOPIC, true);
        given("Topics.createMissedPartitions", PARTITIONED);
        given("Topics.examineMessage", TOPIC, "latest");
        given("Topics.getMessageById", TOPIC, id.getLedgerId(), id.getEntryId());
        given("Topics.getMessagesById", TOPIC, id.getLedgerId(), id.getEntryId());
        given("Schemas.getSchemaInfo", TOPIC, 0L);
        given("NonPersistentTopics.getPartitionedTopicMetadata", NON_PERSISTENT + "-parted");
        given("NonPersistentTopics.createPartitionedTopic", "non-persistent://walked/ns/new");
        given("Packages.listPackages", "function", NAMESPACE);
        given("Packages.upload", null, PACKAGE, file);
        given("Packages.download", PACKAGE, file);
        for (String kind : List.of("Function", "Sink", "Source")) {
            for (String name : List.of("create", "update")) {
                given(kind + "s." + name + kind, null, file);
                given(kind + "." + name + kind, null, file);
                given(kind + "s." + name + kind + "WithUrl", null, "http://h/x.jar");
                given(kind + "." + name + kind + "WithUrl", null, "http://h/x.jar");
            }
        }
        given("Functions.uploadFunction", file, "path");
        given("Functions.downloadFunction", file, "path", "f", file);
        given("Functions.triggerFunction", TENANT, "ns", "f", TOPIC, "value", file);
    }

    static void given(String call, Object... arguments) {
        ARGUMENTS.put(call, arguments);
    }
}
