// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

func nodeSettings() []setting {
	node := integer(areaNode, "node.id", 1, 0, math.MaxInt32,
		"Id of this broker. A data directory remembers it and refuses another.")
	node.instead = []string{"broker.id"}
	return []setting{
		node,
		// -1 is what a Kafka file says for "give me one".
		integer(areaNode, "broker.id", -1, -1, math.MaxInt32, "Older name of node.id. -1 counts as not set."),
	}
}

func networkSettings() []setting {
	const unlimited = math.MaxInt32
	return []setting{
		list(areaNetwork, "listeners", "PLAINTEXT://127.0.0.1:9092",
			"Addresses that clients connect to, as NAME://host:port. An empty host means all interfaces; port 0 takes a free one."),
		list(areaNetwork, "advertised.listeners", "",
			"Addresses that clients are told to connect to, by listener name; those of listeners when empty."),
		list(areaNetwork, "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SSL:SSL",
			"Security protocol of each listener name, as NAME:PROTOCOL. PLAINTEXT and SSL are supported. A name that is not listed must be a protocol itself."),
		list(areaNetwork, "controller.listener.names", "",
			"Listeners that only Kafka's controllers use. They are not opened here."),
		boolean(areaNetwork, "firn.listeners.allow.insecure", false,
			"Allows listeners without authentication on addresses other than loopback, the admin port included."),
		size(areaNetwork, "socket.request.max.bytes", 100<<20, 1<<10, math.MaxInt32,
			"Largest request. A larger one closes its connection."),
		size(areaNetwork, "queued.max.request.bytes", 128<<20, -1, math.MaxInt64,
			"Memory for requests that were read and are not answered yet, over all connections. At least socket.request.max.bytes; -1 takes the default."),
		integer(areaNetwork, "max.connections", unlimited, 1, math.MaxInt32,
			"Connections that may be open at once; further ones are closed."),
		integer(areaNetwork, "max.connections.per.ip", unlimited, 1, math.MaxInt32,
			"Connections that may be open at once from one address; further ones are closed."),
		millis(areaNetwork, "connections.max.idle.ms", 600_000, 1,
			"A connection on which nothing happens for this long is closed."),
		millis(areaNetwork, "fetch.send.timeout.ms", 30_000, 1,
			"A connection that takes no byte of an answer for this long is closed."),
	}
}

// tlsSettings are those of listeners with TLS. A key or certificate is text in
// PEM, in the setting itself or in a file, as Kafka takes it since 2.7.
func tlsSettings() []setting {
	pem := func(v string) error {
		if v != "PEM" {
			return errors.New("want PEM")
		}
		return nil
	}
	return []setting{
		text(areaNetwork, "ssl.keystore.type", "PEM", "Form of the keystore. Only PEM is supported.", pem),
		text(areaNetwork, "ssl.keystore.location", "", "File with the private key and the certificate chain of listeners with TLS, in PEM. It is read at the start.", nil),
		text(areaNetwork, "ssl.keystore.certificate.chain", "", "The certificate chain itself, in PEM, in place of ssl.keystore.location.", nil),
		secret(areaNetwork, "ssl.keystore.key", "The private key to ssl.keystore.certificate.chain itself, in PEM (PKCS #8, PKCS #1 or SEC 1), not encrypted."),
		text(areaNetwork, "ssl.truststore.type", "PEM", "Form of the truststore. Only PEM is supported.", pem),
		text(areaNetwork, "ssl.truststore.location", "", "File with the certificates that sign those of clients, in PEM. It is read at the start.", nil),
		text(areaNetwork, "ssl.truststore.certificates", "", "The certificates themselves, in PEM, in place of ssl.truststore.location.", nil),
		text(areaNetwork, "ssl.client.auth", "none", "Whether clients show a certificate that the truststore vouches for: none, requested (one that is shown must be good) or required.",
			oneOf("none", "requested", "required")),
		list(areaNetwork, "ssl.enabled.protocols", "TLSv1.2,TLSv1.3", "Versions of TLS that are spoken: TLSv1.2, TLSv1.3 or both."),
	}
}

func topicSettings() []setting {
	return []setting{
		integer(areaTopics, "num.partitions", 1, 1, 100_000,
			"Partitions of a topic that is created without a count."),
		integer(areaTopics, "default.replication.factor", 1, 1, math.MaxInt16,
			"Replication factor that is reported and used for topics created without one. A lone broker has one replica: see firn.replication.factor.clamp."),
		boolean(areaTopics, "auto.create.topics.enable", true,
			"Whether asking for the metadata of an unknown topic creates it."),
		boolean(areaTopics, "delete.topic.enable", true,
			"Whether topics can be deleted."),
		boolean(areaTopics, "firn.replication.factor.clamp", false,
			"Accepts replication factors above what there are brokers and lowers them; otherwise such a request is refused."),
	}
}

func fetchSettings() []setting {
	return []setting{
		size(areaFetch, "fetch.max.bytes", 55<<20, 1<<10, math.MaxInt32,
			"Largest answer to one fetch; a single larger batch is still sent."),
		size(areaFetch, "fetch.tail.bytes", 8<<20, 0, math.MaxInt64,
			"How far below the end of a log a read still counts as one of the tail, which goes ahead of replays."),
		size(areaFetch, "fetch.bulk.max.bytes.per.second", 0, -1, math.MaxInt64,
			"Most bytes a second of all answers together that are not the tail's. 0 takes 400 MiB for each processor, -1 sets no bound."),
		size(areaFetch, "fetch.cold.max.bytes", 4<<20, 1<<10, math.MaxInt32,
			"Bytes of one fetch that may come from the object store or from disk past the page cache; the rest follows in later fetches."),
		integer(areaFetch, "max.incremental.fetch.session.cache.slots", 1000, 0, 100_000,
			"Incremental fetch sessions that are kept; clients without one name all their partitions in every fetch."),
		millis(areaFetch, "remote.fetch.max.wait.ms", 500, 1,
			"How long a fetch waits for data from the object store. The read goes on after that, for the next fetch."),
		millis(areaFetch, "remote.list.offsets.request.timeout.ms", 30_000, 1,
			"How long looking up an offset by time in the object store may take."),
		integer(areaFetch, "remote.log.reader.threads", 10, 1, 1024,
			"Reads from the object store that run at once."),
	}
}

func operationSettings() []setting {
	return []setting{
		list(areaOperation, "admin.listeners", "http://127.0.0.1:9190",
			"Addresses of the admin port: health, metrics, profiles and /v1. none turns it off."),
		text(areaOperation, "firn.log.level", "info", "Least important messages that are logged.",
			oneOf("debug", "info", "warn", "error")),
		text(areaOperation, "firn.log.format", "text", "Form of the log: text for people, json for machines.",
			oneOf("text", "json")),
		size(areaOperation, "firn.disk.reserve.bytes", -1, -1, math.MaxInt64,
			"Free disk space at which produce requests to user topics are refused. -1 takes the larger of 1 GiB and 5 % of the disk, at most 10 % of it."),
		text(areaOperation, "firn.io.force", "", "Forces methods of reading past the page cache instead of probing for them: a list of dontcache, fadvise, cachestat, mincore and none. For tests.",
			checkIOForce),
	}
}

func checkIOForce(v string) error {
	allowed := []string{"dontcache", "fadvise", "cachestat", "mincore", "none"}
	for _, e := range splitList(v) {
		if oneOf(allowed...)(e) != nil {
			return fmt.Errorf("want a list of %s", strings.Join(allowed, ", "))
		}
	}
	return nil
}
