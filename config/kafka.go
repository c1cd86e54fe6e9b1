// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
	"sync"
)

// refusedKey names settings of Kafka that must not be accepted without
// effect, because whoever sets them relies on it, and says what to do.
func refusedKey(key, value string) (want string, refused bool) {
	if key == "authorizer.class.name" && strings.TrimSpace(value) != "" {
		return "want it empty: there is no authorizer, everybody who connects may do everything", true
	}
	return "", false
}

// kafkaOnly says whether a key is a setting of Kafka's broker that means
// nothing here, so that a server.properties is taken as it is.
func kafkaOnly(key string) bool {
	if kafkaNames()[key] {
		return true
	}
	return slices.ContainsFunc(kafkaFamilies, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// kafkaFamilies are prefixes under which users or plugins make up names.
var kafkaFamilies = []string{
	"listener.name.", "rsm.config.", "rlmm.config.", "remote.log.metadata.",
	"config.providers.", "principal.mapping.", "confluent.", "zookeeper.", "metrics.", "telemetry.",
}

var kafkaNames = sync.OnceValue(func() map[string]bool {
	m := make(map[string]bool)
	for _, block := range []string{kafkaCluster, kafkaGroups, kafkaNetwork, kafkaLog, kafkaRemote, kafkaSecurity} {
		for name := range strings.FieldsSeq(block) {
			m[name] = true
		}
	}
	return m
})

// Names of Kafka 3 and 4 that are not in the table, by area.
const (
	kafkaCluster = `
		alter.config.policy.class.name
		alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
		auto.leader.rebalance.enable background.threads broker.heartbeat.interval.ms broker.id.generation.enable
		broker.rack broker.session.timeout.ms client.quota.callback.class config.providers
		control.plane.listener.name controlled.shutdown.enable controlled.shutdown.max.retries
		controlled.shutdown.retry.backoff.ms controller.performance.always.log.threshold.ms
		controller.performance.sample.period.ms controller.quorum.append.linger.ms
		controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
		controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
		controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
		controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
		controller.quorum.retry.backoff.ms controller.quorum.voters controller.quota.window.num
		controller.quota.window.size.seconds controller.socket.timeout.ms create.topic.policy.class.name
		follower.fetch.last.tiered.offset.enable initial.broker.registration.timeout.ms
		inter.broker.listener.name inter.broker.protocol.version internal.metadata.delete.delay.millis
		internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
		internal.metadata.max.fetch.size.in.bytes leader.imbalance.check.interval.seconds
		leader.imbalance.per.broker.percentage metadata.log.dir metadata.log.max.record.bytes.between.snapshots
		metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes metadata.log.segment.min.bytes
		metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
		metadata.max.retention.ms metric.reporters num.replica.alter.log.dirs.threads num.replica.fetchers
		process.roles quota.consumer.default quota.producer.default quota.window.num
		quota.window.size.seconds quorum.voters replica.fetch.backoff.ms replica.fetch.max.bytes
		replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
		replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
		replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
		replication.quota.window.size.seconds request.timeout.ms reserved.broker.max.id
		server.max.startup.time.ms unstable.api.versions.enable unstable.feature.versions.enable
		unclean.leader.election.interval.ms`

	kafkaGroups = `
		fetch.purgatory.purge.interval.requests group.consumer.assignment.interval.ms group.consumer.assignors
		group.consumer.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms
		group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.migration.policy
		group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
		group.consumer.regex.refresh.interval.ms group.consumer.session.timeout.ms
		group.coordinator.append.linger.ms group.coordinator.append.max.buffer.size
		group.coordinator.cached.buffer.max.bytes group.coordinator.new.enable
		group.coordinator.rebalance.protocols group.coordinator.threads group.initial.rebalance.delay.ms
		group.max.session.timeout.ms group.max.size group.min.session.timeout.ms
		group.share.assignors group.share.delivery.count.limit group.share.enable
		group.share.heartbeat.interval.ms group.share.max.groups group.share.max.heartbeat.interval.ms
		group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
		group.share.max.share.sessions group.share.max.size group.share.min.heartbeat.interval.ms
		group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
		group.share.partition.max.record.locks group.share.persister.class.name
		group.share.record.lock.duration.ms group.share.session.timeout.ms
		group.streams.heartbeat.interval.ms group.streams.max.heartbeat.interval.ms
		group.streams.max.session.timeout.ms group.streams.max.size group.streams.max.standby.replicas
		group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
		group.streams.num.standby.replicas group.streams.session.timeout.ms
		offset.metadata.max.bytes offsets.commit.required.acks offsets.commit.timeout.ms
		offsets.load.buffer.size offsets.retention.check.interval.ms offsets.retention.minutes
		offsets.topic.compression.codec offsets.topic.num.partitions offsets.topic.replication.factor
		offsets.topic.segment.bytes producer.id.expiration.check.interval.ms
		producer.purgatory.purge.interval.requests share.coordinator.append.linger.ms
		share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
		share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
		share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
		share.coordinator.state.topic.prune.interval.ms share.coordinator.state.topic.replication.factor
		share.coordinator.state.topic.segment.bytes share.coordinator.threads
		share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
		transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
		transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
		transaction.state.log.load.buffer.size transaction.state.log.min.isr
		transaction.state.log.num.partitions transaction.state.log.replication.factor
		transaction.state.log.segment.bytes transaction.two.phase.commit.enable
		transactional.id.expiration.ms`

	kafkaNetwork = `
		connection.failed.authentication.delay.ms delete.records.purgatory.purge.interval.requests
		max.connection.creation.rate max.connections.per.ip.overrides
		max.request.partition.size.limit num.io.threads
		num.network.threads queued.max.requests quota.consumer.byte.rate quota.producer.byte.rate
		socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
		socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes`

	kafkaLog = `
		auto.include.jmx.reporter log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.enable
		log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second
		log.cleaner.threads log.dir.failure.timeout.ms log.flush.scheduler.interval.ms
		log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms
		log.message.downconversion.enable log.message.format.version
		log.message.timestamp.difference.max.ms`

	kafkaRemote = `
		remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
		remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
		remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
		remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
		remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
		remote.log.manager.task.interval.ms remote.log.manager.task.retry.jitter
		remote.log.manager.thread.pool.size remote.log.reader.max.pending.tasks
		remote.log.storage.manager.class.name remote.log.storage.manager.class.path
		remote.log.storage.manager.impl.prefix remote.log.storage.system.enable`

	kafkaSecurity = `
		allow.everyone.if.no.acl.found authorizer.class.name connections.max.reauth.ms
		delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
		delegation.token.master.key delegation.token.max.lifetime.ms delegation.token.secret.key
		early.start.listeners password.encoder.cipher.algorithm password.encoder.iterations
		password.encoder.key.length password.encoder.keyfactory.algorithm password.encoder.old.secret
		password.encoder.secret principal.builder.class sasl.client.callback.handler.class
		sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd
		sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
		sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
		sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
		sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
		sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
		sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
		sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol
		sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
		sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
		sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
		sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
		sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
		sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class
		sasl.server.max.receive.size security.inter.broker.protocol security.providers
		ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites
		ssl.endpoint.identification.algorithm ssl.engine.factory.class
		ssl.key.password ssl.keymanager.algorithm
		ssl.keystore.password ssl.principal.mapping.rules
		ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
		ssl.truststore.password super.users`
)
