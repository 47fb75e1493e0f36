package push

import (
	"strings"
	"testing"
)

// These are the ends of keys of well-known services. The test adds the beginning of each key only when it runs.
// Otherwise a tool that searches source files for secrets would report this file.
const (
	hex32  = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
	lower  = "q7w2e8r4t1y9u3i6o5p0a8s2d4f6g7h1j3k5"
	mixed_ = "Zx8Kq2Lm9Pw4Rt7Yb3Nv6Hc1Jd5Fg0Sa"
	upper  = "QW8ER2TY6UI4OP1A"
)

// secretForms are tags that contain a secret. Each has the tag's key, and its value in several parts, so that this file
// does not contain the whole secret.
var secretForms = [][]string{
	// In these tags the key shows that the value is a secret.
	{"db_pass", "x"}, {"auth", "x"}, {"signing_key", "x"}, {"password", "x"}, {"DB_PASSWORD", "x"},
	{"dbPassword", "x"}, {"passwd", "x"},
	{"mysql_pwd", "x"}, {"user.pass", "x"}, {"pass", "x"}, {"passphrase", "x"}, {"ssh-passphrase", "x"},
	{"pass_phrase", "x"},
	{"pass_code", "x"}, {"client_secret", "x"}, {"clientSecret", "x"}, {"SECRET_KEY_BASE", "x"}, {"secrets", "x"},
	{"access_token", "x"},
	{"authToken", "x"}, {"session_token", "1"}, {"csrf-token", "x"}, {"refreshtoken", "x"}, {"api_key", "x"},
	{"API-KEY", "x"},
	{"apikey", "x"}, {"apiKeys", "x"}, {"x-api-key", "x"}, {"access_key", "x"}, {"aws_access_key_id_secret", "x"},
	{"private_key", "x"},
	{"privateKey", "x"}, {"encryption_key", "x"}, {"encryptionKey", "x"}, {"master_key", "x"},
	{"RAILS_MASTER_KEY", "x"},
	{"account_key", "x"}, {"accountkey", "x"}, {"storage-key", "x"}, {"shared_key", "x"}, {"license_key", "x"},
	{"deploy_key", "x"},
	{"dd_app_key", "x"}, {"consumer_key", "x"}, {"hmac_key", "x"}, {"jwt_key", "x"}, {"ssh_key", "x"},
	{"tls.key", "x"}, {"webhook_key", "x"},
	{"webhook", "x"}, {"webhook_url", "x"}, {"credential", "x"}, {"aws.credentials", "x"}, {"creds", "x"},
	{"db_cred", "x"},
	{"authorization", "x"}, {"proxy-authorization", "x"}, {"basic_auth", "x"}, {"redis_auth", "x"}, {"cookie", "x"},
	{"set-cookie", "x"},
	{"PHPSESSID", "x"}, {"bearer", "x"}, {"jwt", "x"}, {"otp", "x"}, {"pin", "1234"}, {"hmac", "x"},
	{"url.sig", "x"}, {"signature", "x"},
	{"password_salt", "x"}, {"connection_string", "x"}, {"connectionString", "x"}, {"conn_str", "x"},
	{"pgpass", "x"}, {"netrc", "x"},
	{"id_rsa", "x"}, {"db_pw", "x"}, {"privkey", "x"}, {"basicauth", "x"}, {"totp_seed", "x"}, {"twilio_key", "x"},
	{"passwort", "x"}, {"contrasena", "x"},
	// In these tags the key shows a secret in a less common way: by an unlisted kind of key, with digits as letters,
	// letter by letter, or in another language.
	{"scout_key", "x"}, {"logdna_key", "x"}, {"kms_key", "x"}, {"licensekey", "x"}, {"honeycomb_writekey", "x"},
	{"passkey", "x"}, {"ACTIVE_RECORD_ENCRYPTION_PRIMARY_KEY", "x"}, {"pa55word", "x"}, {"s3cret", "x"},
	{"p_a_s_s_w_o_r_d", "x"}, {"session_id", "x"}, {"sid", "x"}, {"xsrf", "x"}, {"pepper", "x"}, {"oauth2", "x"},
	{"invite_code", "x"}, {"magic_link", "x"}, {"code_verifier", "x"}, {"security_answer", "x"}, {"rootpw", "x"},
	{"masterauth", "x"}, {"dockerconfigjson", "x"}, {"mot_de_passe", "x"}, {"wachtwoord", "x"},
	// In these tags the value contains a name together with its secret, or the value is encoded.
	{"x", "a:b|sec", "ret:c"}, {"x", "pass", "word\\u003dhunter2"}, {"x", "postgres:\\/\\/u:", "p@h\\/db"}, {"x", "//u:", "p@h/db"},
	{"x", "{&quot;pass", "word&quot;:&quot;x&quot;}"}, {"x", "pass", "word%253Dhunter2"},
	{"x", "dXNlcjpo", "dW50ZXIy"}, {"x", "cGFzc3dvcmQ9", "aHVudGVyMg"}, {"x", "_session", "_id=", hex32},
	{"x", "laravel_", "session=eyJpdiI6"}, {"x", "mysql -uroot -p", "hunter2"}, {"x", "redis-cli -a ", "hunter2"},
	{"x", "machine h login u pass", "word p"}, {"x", "{S", "HA}W6ph5Mm5Pz8GgiULbPgzG37mj9g="}, {"x", "user:$ap", "r1$abc$def"},
	{"x", "pbkdf2_", "sha256$260000$abc$def="},
	// In these tags the value is a key of a well-known service.
	{"x", "re", "_", lower[:8], "_", lower[:24]}, {"x", "vercel_blob", "_rw_", mixed_}, {"x", "FlyV1 f", "m2_", mixed_},
	{"x", "base", "64:", mixed_, "="}, {"x", "gAA", "AAA", mixed_}, {"x", "https://outlook.off", "ice.com/webhook/", hex32},
	{"x", "https://api.telegram.org/bot", "123456789:AA", mixed_, "/getMe"},
	{"x", "gh", "p_", mixed_}, {"x", "gh", "o_", mixed_}, {"x", "gh", "s_", mixed_}, {"x", "git", "hub_pat_", mixed_},
	{"x", "gl", "pat-", lower[:20]}, {"x", "gl", "rt-", lower[:20]}, {"x", "gl", "dt-", lower[:20]},
	{"x", "gl", "ptt-", lower[:20]},
	{"x", "xo", "xb-12345-", lower[:12]}, {"x", "xo", "xp-12345-", lower[:12]}, {"x", "xa", "pp-1-A1-", lower[:12]},
	{"x", "xo", "xe.xo", "xp-1-", lower[:12]}, {"x", "https://hooks.sl", "ack.com/services/T0/B0/", mixed_[:12]},
	{"x", "https://hooks.sl", "ack.com/workflows/T0/A0/", mixed_[:12]},
	{"x", "https://disc", "ord.com/api/webhooks/1/", mixed_[:12]},
	{"x", "https://acme.webhook.off", "ice.com/webhookb2/", hex32}, {"x", "s", "k_live_abc"},
	{"x", "s", "k_test_", mixed_[:24]},
	{"x", "r", "k_live_", mixed_[:24]}, {"x", "wh", "sec_", mixed_}, {"x", "S", "K", hex32},
	{"x", "S", "G.", mixed_[:22], ".", mixed_},
	{"x", "np", "m_", mixed_}, {"x", "py", "pi-", mixed_}, {"x", "rub", "ygems_", hex32},
	{"x", "oy", "2", lower, lower[:7]},
	{"x", "c", "io", mixed_}, {"x", "AI", "za", mixed_}, {"x", "ya", "29.", lower}, {"x", "GOC", "SPX-", mixed_[:28]},
	{"x", "ey", "JhbGciOiJIUzI1NiJ9.e", "yJzdWIiOiIxIn0.sig"}, {"x", "ey", "JhbGciOiJIUzI1NiJ9abc"},
	{"x", "AK", "IA", upper},
	{"x", "AS", "IA", upper}, {"x", "the key is AK", "IA", upper, " of prod"}, {"x", "fooAK", "IA", upper},
	{"x", "a=b&k=AK", "IA", upper},
	{"x", "amzn", ".mws.", hex32}, {"x", "dop", "_v1_", hex32, hex32}, {"x", "doo", "_v1_", hex32},
	{"x", "shp", "at_", hex32},
	{"x", "shp", "ca_", hex32}, {"x", "shp", "ss_", hex32}, {"x", "dck", "r_pat_", mixed_[:27]},
	{"x", "dck", "r_oat_", mixed_[:27]},
	{"x", "hv", "s.", mixed_[:24]}, {"x", "hv", "b.", mixed_[:24]}, {"x", "s", ".", mixed_[:24]},
	{"x", mixed_[:14], ".atl", "asv1.", mixed_},
	{"x", "dd", "p_", mixed_}, {"x", "pu", "b", hex32}, {"x", hex32}, {"x", hex32, "0a1b2c3d"},
	{"x", "NRA", "K-", upper},
	{"x", "gl", "c_", mixed_}, {"x", "gl", "sa_", mixed_}, {"x", "sn", "trys_", mixed_},
	{"x", "sn", "tryu_", hex32}, {"x", "hc", "aik_", lower},
	{"x", "dt", "0c01.", upper, ".", upper}, {"x", "s", "k-proj-", mixed_}, {"x", "s", "k-ant-api03-", mixed_},
	{"x", "s", "k-", mixed_},
	{"x", "h", "f_", "abcdefghijklmnopqrst"}, {"x", "gs", "k_", mixed_}, {"x", "pp", "lx-", mixed_},
	{"x", "r", "8_", mixed_},
	{"x", "xa", "i-", mixed_}, {"x", "HRK", "U-", hex32[:8]}, {"x", "fo", "1_", mixed_}, {"x", "nf", "p_", mixed_},
	{"x", "LT", "AI", mixed_[:16]},
	{"x", "AK", "ID", mixed_[:20]}, {"x", "sq", "0atp-", mixed_[:22]},
	{"x", "access_tok", "en$production$", lower[:16]},
	{"x", "rzp", "_live_", mixed_[:14]}, {"x", "access-pro", "duction-", hex32[:8], "-1"},
	{"x", "dp", ".pt.", mixed_}, {"x", "pu", "l-", hex32},
	{"x", "ATA", "TT3xFf", mixed_}, {"x", "lin", "_api_", mixed_}, {"x", "nt", "n_", mixed_},
	{"x", "dap", "i", hex32}, {"x", "psc", "ale_tkn_", mixed_},
	{"x", "PMA", "K-", hex32[:24]}, {"x", "CFP", "AT-", mixed_}, {"x", "sb", "p_", hex32},
	{"x", "tsk", "ey-auth-", mixed_},
	{"x", "key", "-", hex32}, {"x", hex32, "-us", "14"}, {"x", "xke", "ysib-", hex32},
	{"x", "123456789:", "AA", mixed_}, {"x", "AKC", "p", mixed_},
	{"x", "pat", "-na1-", hex32[:8]}, {"x", "CCI", "PAT_", mixed_}, {"x", "bk", "ua_", lower},
	{"x", "AGE-SEC", "RET-KEY-1", upper},
	{"x", "ops_", "ey", "J", mixed_}, {"x", "sq", "p_", hex32}, {"x", "s", "k.ey", "Jhbcd"},
	// In these tags the value is a password or key in another form.
	{"x", "-----BEGIN RSA PRIVATE KEY-----"}, {"x", "-----BEGIN OPENSSH PRIVATE KEY-----"},
	{"x", "LS0tLS1CR", "UdJTiBSU0E"},
	{"x", "postgres://app:hunter2@db/shop"}, {"x", "postgres://app:hun/ter2@db/shop"},
	{"x", "postgres://app:hun@ter/2@db/shop"},
	{"x", "redis://:hunter2@cache:6379/0"}, {"x", "amqp://u:p@mq"}, {"x", "see https://me:hunter2@example.org/"},
	{"x", "mongodb+srv://app:hunter2@cluster0.example.net/shop"}, {"x", "https://", hex32, "@sentry.example.org/1"},
	{"x", "root:hunter2@tcp(db:3306)/shop"}, {"x", "app:hunter2@db:5432/shop"},
	{"x", "Server=db;User=sa;Pwd=hunter2"},
	{"x", "Pwd=hunter2"}, {"x", "host=db password=hunter2 user=app"}, {"x", "AccountKey=aGVsbG8="},
	{"x", "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=aGVsbG8="},
	{"x", "Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey=b="},
	{"x", "SharedAccessSignature sr=x&s"}, {"x", "token=abc"}, {"x", "a=1&token=abc"},
	{"x", "https://x.example/?key=abc"},
	{"x", "https://x.example/?api_key=abc"}, {"x", "https://x.example/?sv=1&sig=abc%3D"},
	{"x", "https://x.example/?X-Amz-Signature=abc"},
	{"x", `{"password": "hunter2"}`}, {"x", `{"user":"a","api_key":"b"}`}, {"x", "password: hunter2"}, {"x", "--password hunter2"},
	{"x", "mysql --user app --password=hunter2"}, {"x", "curl -u me:hunter2 https://x"}, {"x", "Bearer abcdefgh"},
	{"x", "Authorization: Bearer abcd"},
	{"x", "Basic bWU6aHVudGVyMg=="}, {"x", "SSWS 00abcdefgh"}, {"x", "password%3Dhunter2"},
	{"x", "client_secret=abc"}, {"x", "auth=abc"},
	{"x", "SECRET_KEY_BASE=abc"}, {"x", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, {"x", "$2a$10$", mixed_[:20]},
	{"x", "_authToken=abc"},
	{"x", "//registry.npmjs.org/:_authToken=abc"}, {"x", "my key: ", mixed_}, {"ghp_" + mixed_, "x"},
	// In these tags the value is the number of a card or of a bank account, or a password whose name shows no secret.
	{"x", "41111", "11111111111"}, {"x", "4111 1111 ", "1111 1111"}, {"x", "paid by 5555-5555-", "5555-4444 today"}, {"x", "37828", "2246310005"},
	{"x", "60111", "11111111117"}, {"x", "DE89", "370400440532013000"}, {"x", "GB29 NWBK ", "6016 1331 9268 19"}, {"x", "NO93", "86011117947"},
	{"x", "nats://", "hunter2@mq:4222"}, {"x", "-p hun", "ter2"}, {"x", "client -phun", "ter2 shop"}, {"x", "client -p '", "s3cr3t!' shop"},
}

// harmlessTags are typical tags of users. None of them contains a secret, so ddtop must keep all of them.
const harmlessTags = `
service:checkout service:checkout-service-production-eu-west-1 service:auth-service service:token-service
service:secret-santa-web service:shop-worker service:puma service:sidekiq service:payments_api service:user.profile
env:production env:staging env:prod-eu env:dev version:1.2.3 version:v2026.11.23 version:2026.11.23-build4711
version:0123456789abcdef0123456789abcdef01234567 version:main-4f2a9c1 host:web-1
host:ip-10-0-0-1.eu-west-1.compute.internal host:gke-prod-default-pool-1a2b3c4d-x1y2 region:eu-west-1
zone:eu-west-1a availability_zone:us-east-1b datacenter:fra1 cluster:prod-7 team:payments team:core-platform
squad:checkout owner:alice owner:alice@example.org maintainer:mailto:bob@example.org author:bob
authors:alice-and-bob contact:ops@example.org tier:web tier:Basic tier:1 plan:Basic_Plan plan:enterprise
role:primary role:replica shard:12 shard_key:user_id primary_key:id foreign_key:order_id sort_key:created_at
partition_key:tenant cache_key:v2 routing_key:orders.created object_key:uploads public_key:none key:value
keyboard:us keyspace:shop monkey:patched hotkey:ctrl-c token_type:opaque token_bucket:50 token_ttl:3600
tokenizer:bert tokenization:on max_tokens:512 prompt_tokens:128 tokens_per_second:40 password_policy:strict
password_length:12 password_reset:enabled passwordless:true requires_password:false auth_method:oauth
auth_provider:okta auth_mode:ldap auth.type:saml authority:none author_id:17 authenticated:true authentication:ldap
oauth_provider:google secret_name:db-main secret_manager:vault secret_version:7 secretary:jane cookie_consent:yes
cookie_domain:example.org cookie_policy:lax session_store:redis session.kind:web credential_type:iam
credentials_provider:irsa api_key_required:true api_key_enabled:no access_key_rotation:90d private_key_type:rsa
pass_rate:98 pass_count:3 passed:12 passenger:6.0.20 bypass:true compass:north first_pass_rate:99 pwd:/app/current
oldpwd:/app git.commit.sha:0123456789abcdef0123456789abcdef01234567
git.repository_url:https://github.com/ddtop/ddtop git.branch:main git.branch:feature/add-login-page git.tag:v1.2.3
commit:4f2a9c1 commit_sha:0123456789abcdef0123456789abcdef01234567 revision:0123456789abcdef0123456789abcdef01234567
vcs.ref.head.revision:0123456789abcdef0123456789abcdef01234567 image:registry.example.org/shop/web:1.2.3
image:shop/auth:1.4 image:shop/token-service:2.0 image:ruby:3.4-slim image:registry:5000/shop/web:2
image_digest:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
image:registry.example.org/shop/web:1.2@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
image_id:sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef image_tag:sha-4f2a9c1 build:4711
build_id:20261123.4 build_url:https://ci.example.org/job/shop/4711/ build.number:17 pipeline:deploy-prod
pipeline_id:918273645 deployment:blue deployment_id:d-ABCDEF123 release:2026-11-23 release_channel:stable
rollout:canary-10 container_id:abababababababababababababababababababababababababababababababab container_name:web
container_image:shop pod_name:shop-web-7c9d8b6f5-x2x9k kube_namespace:shop kube_deployment:shop-web
kube_container_name:web kube_cluster_name:prod kube_node:gke-prod-default-pool-1a2b3c4d-x1y2 kube_qos:Burstable
k8s.node.uid:11111111-2222-3333-4444-555555555555 k8s.pod.start_time:2026-11-23T08:00:00Z k8s.cronjob.name:nightly
pod_uid:01234567-89ab-cdef-0123-456789abcdef runtime-id:11111111-2222-3333-4444-555555555555
trace_id:0123456789abcdef0123456789abcdef request_id:11111111-2222-3333-4444-555555555555
instance_id:i-0123456789abcdef0 instance-type:m5.xlarge ami_id:ami-0123456789abcdef0 account_id:123456789012
aws_account:123456789012 aws_region:eu-central-1 vpc:vpc-0a1b2c3d subnet:subnet-0a1b2c3d security_group:sg-0a1b2c3d
arn:arn:aws:iam::123456789012:role/shop-web lambda:checkout-prod ecs_cluster:main project:shop-prod-1234
gcp_project:acme-prod subscription:premium resource_group:rg-shop-prod azure.vm.size:Standard_D4s_v5 runtime:ruby
runtime_version:3.4.1 ruby_version:3.4.1p0 rails_version:8.0.1 framework:rails language:ruby gc:incremental
title:SolidQueue::Dispatcher::ConcurrencyMaintenance job_class:Billing::MonthlyInvoiceJob
controller:Admin::UsersController queue:default queue:mailers,critical endpoint:/api/v1/orders
endpoint:GET_/users/:id route:/orders/:id/items url:http://localhost:3000/
url:https://example.org/path/to/page?page=2&sort=name url:http://registry:5000/v2/ db.url:postgres://db/shop
db.host:db-1.internal db.name:shop db.user:app db.port:5432 db_pool:25 redis.url:redis://cache:6379/0
broker:amqp://mq:5672 proxy:http://proxy:3128 feature.new_checkout:true feature_flags:12 experiment:exp-42-variant-b
ab_test:control locale:de_DE currency:EUR country:DE tenant:acme customer:acme-corp shop_id:4711
timezone:Europe/Berlin started:2026-11-23T08:00:00Z uptime:3d os:linux os_version:debian-12 kernel:6.1.0-18-amd64
arch:x86_64 cpu:16 memory:32GB threads:5 workers:4 concurrency:10 log_level:info debug:false color:blue
path:/var/app/releases/20261123080000/lib root:/home/deploy/apps/shop/current
file:config/initializers/session_store.rb span.kind:server http.method:GET http.status_code:200
net.peer.name:api.example.org messaging.system:kafka rpc.service:Checkout checksum:0123456789abcdef0123456789abcdef
credential_helper:ecr-login password_hasher:bcrypt erlang_otp:26 sort_key:date partition_key:user_id object_key:a/b
traceparent:00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 turkey:istanbul hockey:x
nomad_alloc:123e4567-e89b-12d3-a456-426614174000
etag:0123456789abcdef0123456789abcdef asset_digest:0123456789abcdef0123456789abcdef telemetry.sdk.name:opentelemetry
telemetry.sdk.version:1.4.0 otel.scope:rails profiler:ddtop monitored:yes sla:99.95 package:pkg:gem/rails@8.0.1 git.repository_url:git@github.com:acme/shop.git cost_center:CC-1042
description:checkout_and_payment_service_of_the_shop_in_europe
motto:move-fast-and-fix-things-while-everybody-sleeps-at-home
`

// TestSecretForms: ddtop finds a secret in any of its well-known forms, by the tag's key or by its value.
func TestSecretForms(t *testing.T) {
	const least = 120
	if len(secretForms) < least {
		t.Fatalf("only %d forms", len(secretForms))
	}
	for _, form := range secretForms {
		tag := Tag{form[0], strings.Join(form[1:], "")}
		if !LooksSecret(tag) {
			t.Errorf("%v is taken for harmless", tag)
		}
		// If the process's environment contains such a tag, the secret must not get into the profile's tags. Neither
		// the whole secret nor a part of it may appear, not even as the value of another tag.
		for _, key := range []string{tag.Key, "note"} {
			if key == "note" && tag.Key != "x" {
				continue // only the key shows that this value is a secret, so ddtop cannot find it under the key note
			}
			for _, value := range []string{tag.Value, " " + tag.Value} {
				f := Facts{Environment: map[string]string{"OTEL_RESOURCE_ATTRIBUTES": key + "=" + strings.ReplaceAll(value, "%", "%25")}}
				for _, got := range f.Tags() {
					if got.Key == key && strings.Contains(got.Value, tag.Value) {
						t.Errorf("%v is sent as %v", tag, got)
					}
				}
			}
		}
	}
}

// TestHarmlessTags: ddtop mistakes no harmless tag for a secret.
func TestHarmlessTags(t *testing.T) {
	const least = 200
	all := strings.Fields(harmlessTags)
	if len(all) < least {
		t.Fatalf("only %d tags", len(all))
	}
	wrong := 0
	all = append(all, "cmd:mysqld -p 3306", "cmd:puma -p 3000 -e production", "cmd:docker run -p 8080:80 shop", "cmd:mkdir -p /var/lib/shop",
		"cmd:ssh -p2222 web", "cmd:ruby -p script.rb", "order:4111111111111112", "started:20261123080000", "number:123456789012345",
		"account:DE89370400440532013001", "broker:nats://mq:4222", "id:2261123080000123", "cmd:compose -p shop up", "description:login page password form", "commit_message:Rotate keys: all")
	for _, text := range all {
		key, value, _ := strings.Cut(text, ":")
		if LooksSecret(Tag{key, value}) {
			wrong++
			t.Errorf("%s is taken for a secret", text)
		}
	}
	t.Logf("%d of %d harmless tags are taken for secrets", wrong, len(all))
}

// TestLongSecrets: ddtop sends only the beginning of a long value. It still finds a password that comes after this
// beginning.
func TestLongSecrets(t *testing.T) {
	long := strings.Repeat("geheim/", 60)
	for _, value := range []string{"postgres://app:" + long + "@db/shop", strings.Repeat("a b ", 60) + "token=abc"} {
		f := Facts{Environment: map[string]string{"DD_VERSION": value}}
		if got := f.Tags().Get("version"); got != "" {
			t.Errorf("%.30s… is sent as %.30s…", value, got)
		}
	}
}
