"""Texts without a secret, by family. `«hex»`, `«uuid»`, `«b64»` and `«id»` stand for invented identifiers."""

import base64
import random
import re
import uuid

_FILL = re.compile("«(hex40|hex|uuid|b64|id|word)»")


def filled(text: str, rng: random.Random) -> str:
    def one(match: re.Match[str]) -> str:
        match match[1]:
            case "hex40":
                return f"{rng.getrandbits(160):040x}"
            case "hex":
                return f"{rng.getrandbits(256):064x}"
            case "uuid":
                return str(uuid.UUID(int=rng.getrandbits(128)))
            case "b64":
                return base64.b64encode(rng.randbytes(32)).decode()
            case "word":
                return rng.choice(("orders", "billing", "gateway", "worker"))
            case _:
                return f"{rng.getrandbits(40):x}"

    return _FILL.sub(one, text)


TEXTS: dict[str, list[str]] = {
    "prose about passwords": """\
The password must contain at least 12 characters, one digit and one symbol.
Passwords are hashed with bcrypt before they are stored.
If you forgot your password, click the link below to reset it.
The password is required.
The password is incorrect.
Your password is about to expire in 7 days.
Password authentication is disabled for root.
The secret is to keep the dough cold.
The key is under the mat; the password is the name of the dog.
The token is expired, please log in again.
The API key is invalid or has been revoked.
Make sure that the api key is set before starting the server.
The password was changed by admin@example.test on 2026-03-01.
Store the client secret in a vault, never in the repository.
The access token is valid for 3600 seconds.
The password is stored in /etc/app/password.txt.
The secret key is read from the environment variable APP_SECRET_KEY.
The token is passed in the Authorization header as a bearer token.
Rotate the signing key every 90 days.
The database password is managed by Terraform and kept in AWS Secrets Manager.
A passphrase of six random words is stronger than a short password.
The password for the database comes from the secret db-credentials.
the db_password is not set
the db_password is missing from the configuration
The db_password is optional when IAM authentication is used.
The password is case-sensitive.
Your password has been changed successfully.
Two wrong passwords were entered for user bob from 10.0.0.7.
Use the token endpoint to exchange the code for an access token.
Use the password manager of your choice.
Use the password policy min-length-12 for all realms.
I set the password policy to strict for the realm.
password was changed to comply with policy SEC-104
Reset the password to continue.
The new password is the same as the old password.
the password is hashed using PBKDF2-SHA256 with 600,000 iterations
the token is a JWT signed with RS256
The api key is a 32-character hexadecimal string.
The secret is mounted at /var/run/secrets/db.
The secret was created 2026-01-02T03:04:05Z.
La contraseña es obligatoria.
La contraseña debe tener al menos 8 caracteres.
Das Passwort ist abgelaufen.
Das Passwort muss mindestens 12 Zeichen lang sein.
Le mot de passe est incorrect.
Le mot de passe doit contenir 12 caractères.
A senha é obrigatória.
La password è scaduta.
Пароль введён неверно.
Пароль: обязательное поле
密码错误，请重试。
密码不能为空
パスワードを入力してください
パスワードは8文字以上で入力してください
비밀번호를 입력하세요
Your verification code will arrive within 5 minutes.
Enter the verification code we sent to your phone.
The error code is 500123.
The exit code is 137
The status code: 404
use code 42 when the pod is evicted
Recovery codes can be downloaded once.
Write down your seed phrase and keep it in a safe place where nobody else finds it ever again please.
The key difference is that version 2 uses streaming.
a key part of this: caching
The pass rate is 98.7%.
Tests: 412 passed, 3 failed; pass rate 99.3%
He was the keynote speaker; the keyword is "resilience".
The author of the token bucket paper is unknown.
Basic authentication is deprecated; use OAuth2 instead.
Bearer tokens expire after an hour.
The cookie banner is shown to new visitors only.
The signature is valid. Good signature from "Release Team".
secret sauce: low heat and patience
Key takeaways: 1) measure, 2) cut, 3) glue
Password: must be changed at next login
password: 16 bytes
token:      1024 bytes
ca.crt:     1066 bytes
password:  8 bytes
api-key: 40 bytes
client-secret: 32 chars
Token usage: 1234 input, 567 output
Tokens: 12,345 (max 128,000)
max_tokens: 4096
tokens_per_second=812.5
prompt_tokens=1234 completion_tokens=567
total tokens: 1801, cached tokens: 1024
The password field is labelled "Kennwort".
Keys: ArrowUp, ArrowDown, Enter
Authentication: SCRAM-SHA-256
auth: basic
Authorization: required
Authorization header is missing
credentials: include
Credentials expired
Cookie: accepted
PIN entry failed 3 times
pin the version to 1.2.3
session timed out after 1800 s
Author: Bob Example <bob@example.test>
passed: true
password_reset: enabled""".splitlines(),
    "code that reads secrets": r"""password = os.environ["DB_PASSWORD"]
password = os.environ.get("DB_PASSWORD")
password = os.getenv("DB_PASSWORD", "")
password = os.getenv("DB_PASSWORD", None)
password = getpass.getpass("Password: ")
password = input("Enter password: ")
const password = process.env.DB_PASSWORD;
const password = process.env.DB_PASSWORD || "";
const token = req.headers["authorization"];
const token = await getToken(userId);
String password = System.getenv("DB_PASSWORD");
String password = config.getString("db.password");
password := os.Getenv("DB_PASSWORD")
let password = env::var("DB_PASSWORD").expect("DB_PASSWORD must be set");
let password: Option<String> = None;
password: Option<SecretString>,
password: SecretStr
password: SecretStr = Field(..., min_length=12)
password: str | None = None
password: str = Field(default=None, description="The password of the user")
password = models.CharField(max_length=128)
password = forms.CharField(widget=forms.PasswordInput)
password = serializers.CharField(write_only=True)
self.password = password
self._token = token
this.apiKey = options.apiKey;
api_key=settings.OPENAI_API_KEY,
client = Client(api_key=api_key, timeout=30)
def login(username: str, password: str) -> Token:
def set_password(self, raw_password):
if password != confirm_password:
if (token == null) { return unauthorized(); }
if not token: raise ValueError("token is required")
raise AuthError("invalid password for user %s" % user)
logger.info("password changed for %s", user.name)
throw new Error(`Missing password for ${user}`);
fmt.Errorf("token %q has expired", id)
secret = vault.read("secret/data/db")["data"]["password"]
secret = client.get_secret_value(SecretId="prod/db")["SecretString"]
password = base64.b64decode(data["password"])
password = hashlib.sha256(password.encode()).hexdigest()
password = "".join(secrets.choice(alphabet) for _ in range(20))
password=${DB_PASSWORD}
password=$DB_PASSWORD
password: ${{ secrets.DB_PASSWORD }}
password: "{{ vault_db_password }}"
password: {{ .Values.db.password | quote }}
password = var.db_password
password = data.aws_ssm_parameter.db.value
password = random_password.db.result
master_password = module.db.master_password
token = data.vault_generic_secret.x.data["token"]
password: !Ref DbPassword
password: !GetAtt Secret.Password
password: !vault |
password: '{{resolve:secretsmanager:db:SecretString:password}}'
MYSQL_ROOT_PASSWORD_FILE=/run/secrets/db_root
export PGPASSWORD="$(cat /run/secrets/pg)"
export TOKEN=$(vault print token)
TOKEN=`cat token.txt`
curl -H "Authorization: Bearer $TOKEN" https://api.test
curl -u "$USER:$PASS" https://api.test
mysql -u root -p
mysql -u root -p shop
mysql -h db -P 3306 -u root
docker login -u bob --password-stdin registry.test
ssh -p 2222 bob@host
mkdir -p /var/lib/passwords
ssh-keygen -t ed25519 -f id_key
kubectl get secret db-credentials -o yaml
kubectl create secret generic db --from-file=password.txt
vault kv get -field=password secret/db
aws secretsmanager get-secret-value --secret-id prod/db
az keyvault secret show --vault-name v --name db
gh secret list
openssl rand -base64 32
psql -h db -p 5432 -U app
scp -P 2222 key.pub bob@host:/tmp
nc -p 8080 host
mosquitto_sub -h mq -p 1883 -t sensors/temp
snmpwalk -v3 -u monitor -l authPriv 10.0.0.1
redis-cli -h cache -p 6379 ping
useradd -m -s /bin/bash bob
zip -r a.zip folder
tar -P -xf a.tar
password = getattr(settings, "DB_PASSWORD", None)
assert response.json()["token"]
expect(screen.getByLabelText("Password")).toBeVisible()
<input type="password" name="password" placeholder="Password">
<input type="password" id="pwd" autocomplete="current-password" required>
<label for="password">Password</label>
<PasswordField name="password" value={password} onChange={setPassword} />
<h2>Password</h2><p>Choose a strong one.</p>
token = tokenizer.next_token()
tokens = tokenizer.encode("hello world")
key = sorted(items, key=lambda item: item.name)
for key, value in config.items():
key = f"{prefix}:{user_id}"
cache_key = "user:42:profile"
primary_key=True, foreign_key="users.id"
partition_key = "tenant_id"
SELECT password FROM users WHERE id = ?
UPDATE users SET password = ? WHERE id = ?
INSERT INTO users (name, password) VALUES (?, ?)
INSERT INTO users (name, password) VALUES ($1, $2)
INSERT INTO users (name, password) VALUES (:name, :password)
CREATE TABLE users (id INT, password VARCHAR(255) NOT NULL)
ALTER USER bob WITH PASSWORD NULL
token = Some(token)
password: Some(password),
password = Some(cfg.password.clone())
secret = SecretStr(value)
password = SecretStr(os.environ["DB_PASSWORD"])
secret: Secret<String>,
password = Optional.empty()
password = Optional.of(user.getPassword())
val password: String by config
@Value("${spring.datasource.password}")
@Value("${app.token:}")
token = jwt.encode({"sub": user.id}, key, algorithm="HS256")
private final PasswordEncoder passwordEncoder = new BCryptPasswordEncoder();
Password passwordHasher = new Password();
password_validator = RegexValidator(r"^(?=.*[A-Z]).{12,}$")
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = []
passport.use(new LocalStrategy(verify))
auth_provider = "okta"
auth_url = "https://login.example.test/oauth2/token"
token_url: https://login.example.test/oauth2/token
secret_name = "prod/db/credentials"
secretName: db-credentials
secretKeyRef: {name: db-credentials, key: password}
key_file = /etc/ssl/private/server.key
ssl_certificate_key /etc/nginx/ssl/server.key;
keystore: classpath:keystore.p12
key_path = "~/.ssh/id_ed25519"
password_file: /run/secrets/db
tokenizer: cl100k_base
encryption: AES-256-GCM
algorithm: HS256
"scripts": {"auth:login": "node login.js"}
import { Token } from "./token";
from app.auth import password_hash, verify_token
type Token = string | null;
interface Credentials { user: string; password: string }
enum TokenKind { Identifier, Keyword, Number }
password?: string;
readonly password: string;
password: { type: String, required: true, minlength: 8 },
"password": {"type": "string", "format": "password", "minLength": 8}
"password": {"type": "string", "description": "The password of the user"}
"apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"}
password: z.string().min(8)
password: Joi.string().required()
password: t.String({ minLength: 8 })
{{- if .Values.auth.password }}
password_policy: strong-v2
mask_password: true
no-password: true
--password-stdin
--token-file /run/token
  -p, --password string   Password of the registry
  --api-key KEY           API key (default: $API_KEY)
usage: login [-h] [--password PASSWORD] [--token TOKEN]""".splitlines(),
    "records and schemas": [
        '{"name": "password", "type": "string", "required": true}',
        '{"name": "password", "in": "formData", "description": "The password"}',
        '{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}',
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db\n      key: password\n",
        'env:\n- name: TOKEN_TTL\n  value: 3600s\n- name: PASSWORD_MIN_LENGTH\n  value: "12"\n',
        '{"key": "token_limit", "value": "4096"}',
        '{"Name": "/prod/log/level", "Type": "String", "Value": "debug-verbose-1"}',
        '{"Name": "/prod/hosts", "Type": "StringList", "Value": "a-1.test,b-2.test"}',
        '{"sensitive": false, "type": "string", "value": "vpc-«id»"}',
        '{"id": "https://v1.vault.azure.net/secrets/db/«id»", "attributes": {"enabled": true}}',
        '{"kty": "RSA", "kid": "«uuid»", "n": "«b64»", "e": "AQAB", "use": "sig"}',
        '{"kty": "EC", "crv": "P-256", "x": "«b64»", "y": "«b64»"}',
        '{"ParameterKey": "InstanceType", "ParameterValue": "t3.micro"}',
        '{"ParameterKey": "KeyName", "ParameterValue": "ops-laptop-2026"}',
        "Type:  Opaque\n\nData\n====\npassword:  16 bytes\ntoken:     1024 bytes\nca.crt:    1066 bytes\n",
        "NAME             TYPE     DATA   AGE\ndb-credentials   Opaque   2      41d\napi-token-7xk2p "
        " Opaque   1      3d\n",
        "| column | type |\n|---|---|\n| password | varchar(255) |\n| token | text |\n",
        "| Option | Default | Meaning |\n|---|---|---|\n| `password` | none | The password |\n| "
        "`token_ttl` | 3600s | Lifetime |\n",
        "│ column   │ type         │\n│ password │ varchar(255) │\n│ token    │ text         │",
        " column_name | data_type\n-------------+-----------\n password    | character varying\n token       | text\n",
        "openapi: 3.1.0\ncomponents:\n  securitySchemes:\n    apiKey:\n      type: apiKey\n      in: "
        "header\n      name: X-API-Key\n",
        "properties:\n  password:\n    type: string\n    minLength: 8\n  token:\n    $ref: "
        "'#/components/schemas/Token'\n",
        "password:\n  min_length: 12\n  require_digit: true\n",
        "secrets:\n  db_password:\n    file: ./db_password.txt\n  api_key:\n    external: true\n",
        "services:\n  db:\n    secrets:\n      - db_password\n    environment:\n      "
        "POSTGRES_PASSWORD_FILE: /run/secrets/db_password\n",
        "tokens:\n  - type: keyword\n    value: select\n  - type: number\n    value: 42\n",
        "auth:\n  provider: github\n  scopes:\n    - read:user\n",
        "volumes:\n- name: token\n  projected:\n    sources:\n    - serviceAccountToken:\n        "
        "path: token\n        expirationSeconds: 3607\n",
        'resource "random_password" "db" {\n  length  = 24\n  special = true\n}\n',
        'resource "aws_ssm_parameter" "x" {\n  name  = "/prod/db/password"\n  type  = '
        '"SecureString"\n  value = var.db_password\n}\n',
        'variable "db_password" {\n  type        = string\n  description = "The password of the '
        'database"\n  sensitive   = true\n}\n',
        "  ~ password = (sensitive value)\n  + token    = (known after apply)\n",
        '  # random_password.db will be created\n  + resource "random_password" "db" {\n      + id   '
        "  = (known after apply)\n      + result = (sensitive value)\n",
        'output "password" {\n  value     = random_password.db.result\n  sensitive = true\n}\n',
        '{"error": "invalid_token", "error_description": "The access token expired"}',
        '{"error": {"code": "password_mismatch", "message": "Password is wrong"}}',
        '{"token_type": "Bearer", "expires_in": 3600, "scope": "read write"}',
        '{"usage": {"prompt_tokens": 1234, "completion_tokens": 567, "total_tokens": 1801}}',
        '{"nextToken": "«b64»"}',
        '{"etag": "«hex»", "sha256": "«hex»", "commit": "«hex40»"}',
        '{"traceId": "«hex»", "spanId": "«id»", "requestId": "«uuid»"}',
        '{"public_key": "«b64»", "fingerprint": "SHA256:«b64»"}',
        '{"keys": ["name", "created_at", "updated_at"], "primaryKey": "id"}',
        '{"sortKey": "created_at", "partitionKey": "tenant", "routingKey": "orders.created"}',
        '{"label": "Password", "type": "password", "placeholder": "Enter your password"}',
        '{"field": "password", "message": "must be at least 12 characters"}',
        '{"type": "password", "id": "login-password", "value": ""}',
        '{"name": "Authorization", "value": "<token>"}',
        '{"header": "X-Api-Key", "value": "{{api_key}}", "disabled": true}',
        '{"secret": false, "value": "eu-west-1"}',
        '{"masked": false, "key": "REGION", "value": "eu-west-1"}',
        '<property name="tokenTtl">3600</property>',
        '<add key="PasswordPolicy" value="Strict" />',
        '<xs:element name="password" type="xs:string" minOccurs="0"/>',
        '<string name="password_hint">Enter your password</string>',
        '<string name="prompt_password">Password (optional)</string>',
        "password_hint=Enter your password",
        "login.password.label=Password",
        "error.password.tooShort=The password needs 12 characters or more",
        'msgid "Password"\nmsgstr "Contraseña"\n',
        'msgid "password"\nmsgstr "Passwort"\n',
        '"password": "Contraseña",\n"login": "Iniciar sesión"',
        '"password": "Mot de passe",\n"cancel": "Annuler"',
        "en:\n  password: Password\n  forgot_password: Forgot your password?\n",
        "id,name,password_changed_at\n1,bob,2026-01-02\n",
        "user,passed,failed\nbob,12,0\n",
        "name  key_type  bits\na     rsa       4096\n",
    ],
    "logs and identifiers": """\
2026-11-16T00:00:00Z INFO login ok user=bob method=password duration=12ms
2026-11-16T00:00:00Z WARN auth failed user=bob reason=bad_password attempts=3
sshd[811]: Failed password for invalid user admin from 10.0.0.7 port 51512 ssh2
sshd[811]: Accepted publickey for bob from 10.0.0.7 port 51512 ssh2: ED25519 SHA256:«b64»
sshd[811]: Failed password for root from 203.0.113.9 port 40022 ssh2
FATAL:  password authentication failed for user "app"
ERROR 1045 (28000): Access denied for user 'app'@'10.0.0.7' (using password: YES)
psql: error: fe_sendauth: no password supplied
SCRAM-SHA-256 authentication failed
token bucket: rate=100/s burst=200 remaining=17
key=orders:«uuid» ttl=300 hit=true
cache key user:«uuid» expired
commit «hex40» (HEAD -> main)
sha256:«hex»
image: registry.test/app@sha256:«hex»
etag: "«id»«id»"
x-request-id: «uuid»
trace_id=«id»«id» span_id=«id»
pod/api-7d9f8b6c5d-x2x7k created
secret/db-credentials unchanged
serviceaccount/default token mounted at /var/run/secrets/kubernetes.io/serviceaccount
MountVolume.SetUp failed for volume "token" : secret "api-token-7xk2p" not found
Error: secret "db-credentials" not found
Error: couldn't find key password in Secret default/db
secrets "tls-cert" is forbidden: User "system:serviceaccount:ci:bot" cannot get resource
error: the key "password" is missing in secret «word»-db
Warning: Using a password on the command line interface can be insecure.
Enter password:
Password:
Password for bob:
[sudo] password for bob:
Confirm password:
passwd: password updated successfully
Changing password for user bob.
New password: Retype new password:
All authentication tokens updated successfully.
Generating public/private ed25519 key pair.
The key fingerprint is: SHA256:«b64» bob@host
GPG key ID: «id»
gpg: using RSA key «hex40»
gpg: Good signature from "Bob <bob@example.test>"
key exchange: curve25519-sha256
Server public key: ssh-ed25519
Unexpected token '}' in JSON at position 512
SyntaxError: Unexpected token < in JSON at position 0
unexpected token: identifier 'foo'
error: unexpected token `;`, expected expression
KeyError: 'password'
KeyError: 'api_key'
TypeError: login() missing 1 required positional argument: 'password'
AttributeError: 'NoneType' object has no attribute 'token'
ValueError: token must be a string, got int
AssertionError: password mismatch
pydantic_core.ValidationError: password: Field required
django.core.exceptions.ImproperlyConfigured: The SECRET_KEY setting must not be empty.
jwt.exceptions.ExpiredSignatureError: Signature has expired
botocore.exceptions.NoCredentialsError: Unable to locate credentials
401 Unauthorized: token expired at 2026-11-16T00:00:00Z
WWW-Authenticate: Bearer realm="api", error="invalid_token"
WWW-Authenticate: Basic realm="restricted"
Set-Cookie: theme=dark; Path=/; SameSite=Lax
Proxy-Authenticate: Negotiate
GET /oauth/token 200 12ms
POST /api/v1/password/reset 204
GET /users/«uuid»/tokens?page=2&limit=50 200
GET /search?q=password+reset&page=2 200
GET /reset-password?lang=en 200
https://docs.example.test/security/api-keys#rotate-your-key
https://bob@git.example.test/a.git
https://x.test:8443/path@v1.2.3
git@github.test:team/app.git
bob@host:/var/log$ ls
npm install @team/token-parser@1.2.3
app@10.0.0.7:5432 connected
user bob:staff changed owner
drwxr-xr-x root:root 4096 /etc/secrets
-rw-r--r-- 1 bob bob 1704 Nov 16 00:00 private.key
127.0.0.1:6379> AUTH
127.0.0.1:6379> CONFIG GET requirepass
db:5432:shop is reachable
localhost:5432:postgres:ready
10.0.0.1:3306:mysql:open
node-1:9100:up:1
a:b:c:d
12:34:56:789 started
tests/test_password.py::test_reset PASSED
test_token_refresh (tests.auth.TokenTest) ... ok
+    def test_password_is_required(self):
-  password: str
diff --git a/secrets.md b/secrets.md
Password.java:42
at com.example.auth.TokenService.verify(TokenService.java:88)
Compiled password.ts in 12 ms
password-hasher v2.1.0
Successfully installed keyring-25.6.0 tokenizers-0.22.1
downloading https://files.example.test/passlib-1.7.4-py2.py3-none-any.whl
libsecret-1-0 0.21.4-1 amd64
key-1 value-1
Key: Value
token_count: 8192
secret_count=3
keys: 412
expired keys: 17, evicted keys: 0
keyspace_hits:1234567
# Keyspace
db0:keys=17,expires=3,avg_ttl=3600
innodb_buffer_pool_key_reads 812
Key_blocks_used 1234
passes: 12
bypass=true
compass heading 271.3
authored-by: Bob
authority=api.test:443
authorized_keys2
keyword: resilience
keyboard: us
monkey: banana
turkey=ankara
hockey: 3:2
cookies: 12
dsn: default
pin: 14
pin=GPIO17
sid=orcl
code=E1234
code: ENOENT
sig=SIGTERM
salt: 1 tsp
salt-minion 3007.1
pat: optional""".splitlines(),
    "public and encoded": [
        "-----BEGIN PUBLIC KEY-----\n«b64»\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\n«b64»\n«b64»\n-----END CERTIFICATE-----",
        "«b64»\n«b64»\n-----END CERTIFICATE-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI«b64» bob@host",
        "data:image/png;base64,«b64»«b64»",
        "integrity sha512-«b64»«b64»",
        "PublicKey = «b64»",
        "&lt;p&gt;Password required&lt;/p&gt;",
        "&lt;label&gt;Password&lt;/label&gt;",
        "Don&#39;t share your password &amp; keep it safe",
        '{"text": "caf\\u00e9 \\u2014 password required"}',
        '{"html": "\\u003cb\\u003ePassword\\u003c/b\\u003e is required"}',
        '{"msg": "token expired\\nplease log in again\\n"}',
        "q=password%20reset&lang=en",
        "message=The%20password%20is%20required",
        "ｐａｓｓｗｏｒｄ は必須です",
        "\\x1b[31mpassword\\x1b[0m: required",
        "pass\\x77ord required",
        "SGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXN0",
        "“Password” is required",
        "name: „Passwort“",
        "secret: “sauce”",
        "(password “optional”)",
        "the word ‘password’ means ‘a secret word’",
        "│ Password │ required │",
        "│ key      │ value    │\n│ level    │ debug    │",
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="«hex40»"',
        "Content-MD5: Q2hlY2sgSW50ZWdyaXR5IQ==",
        "AKIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ],
}
