package kernel

import (
	"net/netip"
	"path"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// services names the services of well-known ports (IANA's registry, and defaults of programs without an entry there).
var services = map[uint16]string{
	21: "FTP", 22: "SSH", 25: "SMTP", 53: "DNS", 80: "HTTP", 88: "Kerberos", 110: "POP3", 123: "NTP", 143: "IMAP",
	389: "LDAP", 443: "HTTPS", 465: "SMTP", 514: "syslog", 587: "SMTP", 636: "LDAP", 853: "DNS", 873: "rsync",
	993: "IMAP", 995: "POP3", 1433: "SQL Server", 1521: "Oracle", 1883: "MQTT", 2049: "NFS", 2181: "ZooKeeper",
	2375: "Docker", 2376: "Docker", 2379: "etcd", 2525: "SMTP", 3000: "HTTP", 3128: "HTTP proxy", 3306: "MySQL",
	4222: "NATS", 4317: "OpenTelemetry", 4318: "OpenTelemetry", 5432: "PostgreSQL", 5439: "Redshift", 5671: "RabbitMQ",
	5672: "RabbitMQ", 5984: "CouchDB", 6333: "Qdrant", 6379: "Redis", 6380: "Redis", 6432: "PgBouncer",
	6443: "Kubernetes", 7233: "Temporal", 7474: "Neo4j", 7687: "Neo4j", 7700: "Meilisearch", 8080: "HTTP",
	8086: "InfluxDB", 8108: "Typesense", 8123: "ClickHouse", 8125: "StatsD", 8126: "Datadog agent", 8200: "Vault",
	8443: "HTTPS", 8500: "Consul", 8883: "MQTT", 8983: "Solr", 9042: "Cassandra", 9092: "Kafka", 9093: "Kafka",
	9094: "Kafka", 9200: "Elasticsearch", 9300: "Elasticsearch", 11211: "memcached", 11300: "beanstalkd",
	11434: "Ollama", 15672: "RabbitMQ", 24224: "Fluentd", 26257: "CockroachDB", 26379: "Redis Sentinel",
	27017: "MongoDB", 27018: "MongoDB", 27019: "MongoDB", 33060: "MySQL", 50051: "gRPC",
}

// unixServices maps a word in a unix socket's file name to the program that listens there.
var unixServices = []struct{ word, service string }{
	{".s.PGSQL.", "PostgreSQL"}, {"mysql", "MySQL"}, {"mariadb", "MySQL"}, {"redis", "Redis"}, {"memcached", "memcached"},
	{"mongodb", "MongoDB"}, {"pgbouncer", "PgBouncer"}, {"docker", "Docker"}, {"nscd", "name service"},
	{"apm.socket", "Datadog agent"}, {"dsd.socket", "Datadog agent"}, {"journal", "journald"}, {"syslog", "syslog"},
}

// ephemeralFirst is the lowest port that the kernel chooses for a client (default of ip_local_port_range).
const ephemeralFirst = 32768

// serviceOf returns the service that is usual at an address's port, or "" if the port is not known.
func serviceOf(a netip.AddrPort) string { return services[a.Port()] }

// unixService returns the program that listens at a unix socket's path, or "" if it is not known.
func unixService(name string) string {
	base := path.Base(name)
	for _, s := range unixServices {
		if strings.Contains(base, s.word) {
			return s.service
		}
	}
	return ""
}

// coarse removes from a Peer the ports that the kernel chose for a client. So all connections to one server have the
// same Peer.
func coarse(p sampler.Peer) sampler.Peer {
	if p.Kind != sampler.PeerTCP && p.Kind != sampler.PeerUDP {
		return p
	}
	p.Remote, p.Local = withoutEphemeral(p.Remote), withoutEphemeral(p.Local)
	return p
}

func withoutEphemeral(s string) string {
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() < ephemeralFirst {
		return s
	}
	return a.Addr().String()
}
