"""Documents of known tools that hold secrets: secret stores, keys, password files, codes."""

import base64
import hashlib
import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass

from bench.secrets.values import generated, hexadecimal, in_base64, key_lines, mnemonic, spoken, symbols, url_safe


@dataclass(frozen=True)
class Document:
    text: str
    secrets: tuple[str, ...]
    keep: tuple[str, ...] = ()
    form: str = ""


Builder = Callable[[random.Random], Document]


def _value(rng: random.Random) -> str:
    return rng.choice((spoken, generated, symbols, in_base64))(rng)


def _json(rng: random.Random, document: object, *secrets: str, keep: tuple[str, ...] = ()) -> Document:
    return Document(json.dumps(document, indent=rng.choice((None, 2, 4))), secrets, keep, "json")


# --------------------------------------------------------------------------- stores


def ssm_parameter(rng: random.Random) -> Document:
    value = _value(rng)
    name = rng.choice(("/prod/db/password", "/prod/app/mailer", "/shop/config"))
    parameter = {"Name": name, "Type": "SecureString", "Value": value, "Version": 3, "DataType": "text"}
    return _json(rng, {"Parameter": parameter}, value, keep=(name, "SecureString"))


def ssm_parameters(rng: random.Random) -> Document:
    first, second = _value(rng), _value(rng)
    rows = [
        {
            "Value": first,
            "ARN": "arn:aws:ssm:eu-west-1:123456789012:parameter/a",
            "Name": "/a/mail",
            "Type": "SecureString",
        },
        {"Name": "/a/level", "Type": "String", "Value": "debug-verbose"},
        {"Name": "/a/db", "Type": "SecureString", "Value": second},
    ]
    return _json(rng, {"Parameters": rows}, first, second, keep=("debug-verbose", "/a/level"))


def ssm_table(rng: random.Random) -> Document:
    value = _value(rng)
    return Document(
        f"PARAMETER\tarn:aws:ssm:eu:1:parameter/x\ttext\t/prod/db/password\tSecureString\t{value}\t1",
        (value,),
        ("text",),
    )


def ssm_yaml(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(
        f"Name: /prod/mailer\nType: SecureString\nValue: {value}\nVersion: 1\n", (value,), ("mailer",), "yaml"
    )


def secrets_manager(rng: random.Random) -> Document:
    value = _value(rng)
    return _json(
        rng,
        {
            "ARN": "arn:aws:secretsmanager:eu:1:secret:x",
            "Name": "prod/db",
            "SecretString": value,
            "VersionStages": ["AWSCURRENT"],
        },
        value,
        keep=("prod/db", "AWSCURRENT"),
    )


def secrets_manager_inner(rng: random.Random) -> Document:
    value = _value(rng)
    inner = json.dumps({"username": "bob", "password": value, "host": "db"})
    return _json(rng, {"Name": "prod/db", "SecretString": inner}, value, keep=("bob",))


def secret_binary(rng: random.Random) -> Document:
    value = in_base64(rng)
    return _json(rng, {"Name": "prod/db", "SecretBinary": value}, value, keep=("prod/db",))


def key_vault(rng: random.Random) -> Document:
    value = _value(rng)
    address = "https://v1.vault.azure.net/secrets/mailer/4387e9f3d6e14c459867679a90fd0f79"
    return _json(
        rng, {"attributes": {"enabled": True}, "value": value, "id": address}, value, keep=("enabled", "secrets/mailer")
    )


def key_vault_named(rng: random.Random) -> Document:
    value = _value(rng)
    document = {
        "contentType": None,
        "id": "https://v1.vault.azure.net/secrets/db/1",
        "kid": None,
        "name": "db",
        "value": value,
    }
    return _json(rng, document, value, keep=("contentType",))


def parameter_pairs(rng: random.Random) -> Document:
    value = _value(rng)
    rows = [
        {"ParameterKey": "DbPassword", "ParameterValue": value},
        {"ParameterKey": "Size", "ParameterValue": "t3.micro"},
    ]
    return _json(rng, {"Stacks": [{"Parameters": rows}]}, value, keep=("t3.micro", "DbPassword"))


def gcp_secret(rng: random.Random) -> Document:
    value = base64.b64encode(spoken(rng).encode()).decode()
    return _json(
        rng, {"name": "projects/1/secrets/db/versions/1", "payload": {"data": value, "dataCrc32c": "1"}}, value
    )


def terraform_state(rng: random.Random) -> Document:
    value = _value(rng)
    resource = {
        "mode": "managed", "type": "random_password", "name": "db",
        "instances": [{"attributes": {"id": "none", "length": 16, "result": value, "special": True}}],
    }  # fmt: skip
    return _json(rng, {"version": 4, "resources": [resource]}, value, keep=("managed", "length"))


def terraform_state_show(rng: random.Random) -> Document:
    value = symbols(rng)
    text = '# random_password.db:\nresource "random_password" "db" '
    f'{{\n    id     = "none"\n    length = 16\n    result = "{value}"\n}}\n'
    return Document(text, (value,), ("length = 16",))


def terraform_plan(rng: random.Random) -> Document:
    old, new = spoken(rng), spoken(rng)
    text = f'  ~ resource "aws_db_instance" "x" {{\n      ~ password = "{old}" -> "{new}"\n        name = "x"\n    }}'
    return Document(text, (old, new), ("aws_db_instance", "->"))


def terraform_plan_json(rng: random.Random) -> Document:
    old, new = spoken(rng), spoken(rng)
    change = {
        "actions": ["update"],
        "before": {"master_password": old},
        "after": {"master_password": new, "port": 5432},
    }
    return _json(rng, {"resource_changes": [{"address": "aws_db.x", "change": change}]}, old, new, keep=("5432",))


def terraform_output(rng: random.Random) -> Document:
    value = _value(rng)
    outputs = {
        "mailer": {"sensitive": True, "type": "string", "value": value},
        "size": {"sensitive": False, "type": "string", "value": "t3.micro"},
    }
    return _json(rng, outputs, value, keep=("t3.micro",))


def terraform_key_vault(rng: random.Random) -> Document:
    value = _value(rng)
    resource = {
        "type": "azurerm_key_vault_secret",
        "name": "db",
        "instances": [{"attributes": {"name": "db", "value": value}}],
    }
    return _json(rng, {"resources": [resource]}, value)


def pulumi_secret(rng: random.Random) -> Document:
    value = _value(rng)
    return _json(
        rng,
        {"db": {"value": value, "secret": True}, "region": {"value": "eu-west-1", "secret": False}},
        value,
        keep=("eu-west-1",),
    )


def vault_init(rng: random.Random) -> Document:
    keys = [in_base64(rng) for _ in range(3)]
    token = "hvs." + generated(rng) + "abcd1234"
    text = "\n".join(f"Unseal Key {number}: {key}" for number, key in enumerate(keys, 1))
    return Document(
        f"{text}\n\nInitial Root Token: {token}\n\nVault initialized with 3 key shares",
        (*keys, token),
        ("3 key shares",),
    )


def vault_init_json(rng: random.Random) -> Document:
    keys = [in_base64(rng) for _ in range(2)]
    hexes = [hexadecimal(rng) * 2 for _ in range(2)]
    token = "s." + "".join(rng.choices(string.ascii_letters + string.digits, k=24))
    document = {"unseal_keys_b64": keys, "unseal_keys_hex": hexes, "unseal_shares": 2, "root_token": token}
    return _json(rng, document, *keys, *hexes, token, keep=("unseal_shares",))


def vault_recovery(rng: random.Random) -> Document:
    key = in_base64(rng)
    return Document(f"Recovery Key 1: {key}\n\nSuccess! Vault is initialized", (key,), ("Success!",))


def vault_read(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(
        f"====== Data ======\nKey         Value\n---         -----\npassword    {value}\nusername    bob\n",
        (value,),
        ("bob",),
    )


def vault_read_json(rng: random.Random) -> Document:
    value = _value(rng)
    return _json(
        rng,
        {"request_id": "1", "data": {"data": {"db_password": value, "user": "bob"}, "metadata": {"version": 2}}},
        value,
        keep=("bob",),
    )


def vault_approle(rng: random.Random) -> Document:
    value = str(__import__("uuid").UUID(int=rng.getrandbits(128)))
    return Document(
        f"Key                   Value\n---                   -----\nsecret_id             "
        f"{value}\nsecret_id_ttl         0s\n",
        (value,),
        ("secret_id_ttl",),
    )


def github_actions(rng: random.Random) -> Document:
    value = _value(rng)
    return _json(
        rng,
        {"variables": [{"key": "MAILER", "value": value, "masked": True, "protected": False}]},
        value,
        keep=("MAILER",),
    )


def azure_devops(rng: random.Random) -> Document:
    value = _value(rng)
    return _json(
        rng,
        {"variables": {"mailer": {"isSecret": True, "value": value}, "level": {"value": "debug-verbose"}}},
        value,
        keep=("debug-verbose",),
    )


def azure_app_setting(rng: random.Random) -> Document:
    value = _value(rng)
    return _json(rng, [{"name": "DB_PASSWORD", "slotSetting": False, "value": value}], value, keep=("slotSetting",))


def azure_keys(rng: random.Random) -> Document:
    first, second = in_base64(rng), in_base64(rng)
    rows = [
        {"keyName": "key1", "permissions": "FULL", "value": first},
        {"keyName": "key2", "permissions": "FULL", "value": second},
    ]
    return _json(rng, rows, first, second, keep=("FULL",))


def azure_primary(rng: random.Random) -> Document:
    first, second = in_base64(rng), in_base64(rng)
    return _json(rng, {"primaryKey": first, "secondaryKey": second, "keyName": "Root"}, first, second, keep=("Root",))


def ecs_task(rng: random.Random) -> Document:
    value = _value(rng)
    environment = [{"name": "DB_PASSWORD", "value": value}, {"name": "LEVEL", "value": "debug"}]
    return _json(rng, {"containerDefinitions": [{"image": "a:1", "environment": environment}]}, value, keep=("debug",))


def aws_credentials(rng: random.Random) -> Document:
    key = in_base64(rng)[:40]
    token = in_base64(rng) + in_base64(rng)
    return _json(
        rng,
        {"Credentials": {"SecretAccessKey": key, "SessionToken": token, "Expiration": "2026-01-01"}},
        key,
        token,
        keep=("2026-01-01",),
    )


def bitwarden(rng: random.Random) -> Document:
    value = _value(rng)
    fields = [{"name": "mailer", "value": value, "type": 1}]
    login = {"username": "bob", "password": spoken(rng), "totp": None}
    return _json(
        rng, {"type": 1, "name": "db", "login": login, "fields": fields}, login["password"] or "", keep=("bob",)
    )


def one_password(rng: random.Random) -> Document:
    value = _value(rng)
    return _json(
        rng,
        {"fields": [{"id": "x", "type": "CONCEALED", "label": "mailer", "value": value}]},
        value,
        keep=("CONCEALED",),
    )


def keepass_xml(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(f'<String><Key>Password</Key><Value ProtectInMemory="True">{value}</Value></String>', (value,))


def jenkins_xml(rng: random.Random) -> Document:
    value = generated(rng)
    return Document(
        f"<com.x.StringCredentialsImpl><id>db</id><secret>{value}</secret></com.x.StringCredentialsImpl>", (value,)
    )


def docker_config(rng: random.Random) -> Document:
    value = base64.b64encode(f"bob:{spoken(rng)}".encode()).decode()
    return _json(rng, {"auths": {"registry.test": {"auth": value}}}, value, keep=("registry.test",))


def ansible_vars(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(f"db:\n  user: bob\n  credentials:\n    password: {value}\n", (value,), ("bob",), "yaml")


def cloud_init(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(
        f"#cloud-config\nchpasswd:\n  list: |\n    root:{value}\n  expire: false\n", (value,), ("expire",), "yaml"
    )


def netplan(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(
        f'wifis:\n  wlan0:\n    access-points:\n      "home":\n        password: "{value}"\n',
        (value,),
        ("home",),
        "yaml",
    )


def wpa_supplicant(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(f'network={{\n  ssid="home"\n  psk="{value}"\n}}', (value,), ("home",))


def wireguard(rng: random.Random) -> Document:
    first, second = in_base64(rng), in_base64(rng)
    text = f"[Interface]\nPrivateKey = {first}\n[Peer]\nPublicKey = {in_base64(rng)}\nPresharedKey = "
    f"{second}\nAllowedIPs = 10.0.0.0/8"
    return Document(text, (first, second), ("10.0.0.0/8",))


def cisco(rng: random.Random) -> Document:
    value = spoken(rng)
    line = rng.choice(
        (
            "username bob privilege 15 password 0 {}",
            "snmp-server community {} RO",
            "enable secret 5 {}",
            " key-string {}",
            "tacacs-server key {}",
            "crypto isakmp key {} address 10.0.0.1",
            "username bob secret {}",
            "neighbor 10.0.0.1 password {}",
        )
    )
    return Document(line.format(value), (value,), (line.split()[0],))


def maven_settings(rng: random.Random) -> Document:
    value = symbols(rng)
    return Document(
        f"<server><id>x</id><username>bob</username><password>{value}</password></server>", (value,), ("bob",)
    )


def netrc(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(f"machine git.test\n  login bob\n  password {value}\n", (value,), ("bob",))


def npmrc(rng: random.Random) -> Document:
    value = generated(rng)
    return Document(f"//registry.test/:_authToken={value}\nalways-auth=true", (value,), ("always-auth=true",))


def pypirc(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(f"[pypi]\nusername = bob\npassword = {value}\n", (value,), ("bob",))


def saml(rng: random.Random) -> Document:
    value = base64.b64encode(b"<samlp:Response xmlns:samlp='urn'>" + rng.randbytes(90)).decode()
    form = rng.choice(("SAMLResponse={}&RelayState=x", '<input type="hidden" name="SAMLResponse" value="{}"/>'))
    return Document(form.format(value), (value,))


def otpauth(rng: random.Random) -> Document:
    value = base64.b32encode(rng.randbytes(20)).decode()
    return Document(f"otpauth://totp/x:bob?secret={value}&issuer=x", (value,), ("issuer=x",))


def oauth_form(rng: random.Random) -> Document:
    code, verifier = url_safe(rng), url_safe(rng)
    return Document(
        f"grant_type=authorization_code&code={code}&code_verifier={verifier}&client_id=x",
        (code, verifier),
        ("client_id=x",),
    )


def git_credentials(rng: random.Random) -> Document:
    value = generated(rng)
    return Document(f"protocol=https\nhost=git.test\nusername=bob\npassword={value}\n", (value,), ("git.test",))


def sql_rows(rng: random.Random) -> Document:
    first, second = spoken(rng), spoken(rng)
    text = f"INSERT INTO `users` (`id`,`name`,`password`,`mail`) VALUES (1,'bob','{first}',"
    f"'a@b.test'),(2,'eve','{second}','c@d.test');"
    return Document(text, (first, second), ("a@b.test", "c@d.test", "eve"))


def copy_rows(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(
        f"COPY users (id, name, password, mail) FROM stdin;\n1\tbob\t{value}\ta@b.test\n\\.\n", (value,), ("a@b.test",)
    )


STORES: tuple[Builder, ...] = (
    ssm_parameter,
    ssm_parameters,
    ssm_table,
    ssm_yaml,
    secrets_manager,
    secrets_manager_inner,
    secret_binary,
    key_vault,
    key_vault_named,
    parameter_pairs,
    gcp_secret,
    terraform_state,
    terraform_state_show,
    terraform_plan,
    terraform_plan_json,
    terraform_output,
    terraform_key_vault,
    pulumi_secret,
    vault_init,
    vault_init_json,
    vault_recovery,
    vault_read,
    vault_read_json,
    vault_approle,
    github_actions,
    azure_devops,
    azure_app_setting,
    azure_keys,
    azure_primary,
    ecs_task,
    aws_credentials,
    bitwarden,
    one_password,
    keepass_xml,
    jenkins_xml,
    docker_config,
    ansible_vars,
    cloud_init,
    netplan,
    wpa_supplicant,
    wireguard,
    cisco,
    maven_settings,
    netrc,
    npmrc,
    pypirc,
    saml,
    otpauth,
    oauth_form,
    git_credentials,
    sql_rows,
    copy_rows,
)


# --------------------------------------------------------------------------- keys


def _pem(rng: random.Random, head: bool, foot: bool, lead: str = "") -> Document:
    lines = key_lines(rng, rng.randrange(6, 20))
    kind = rng.choice(("RSA ", "", "EC ", "OPENSSH "))
    text = [f"-----BEGIN {kind}PRIVATE KEY-----"] * head + lines + [f"-----END {kind}PRIVATE KEY-----"] * foot
    return Document("\n".join(lead + line for line in text), tuple(lines))


def pem(rng: random.Random) -> Document:
    return _pem(rng, True, True)


def pem_cut_below(rng: random.Random) -> Document:
    return _pem(rng, True, False)


def pem_cut_above(rng: random.Random) -> Document:
    return _pem(rng, False, True)


def pem_cut_above_indented(rng: random.Random) -> Document:
    return _pem(rng, False, True, "    ")


def pem_in_log(rng: random.Random) -> Document:
    return _pem(rng, True, True, "2026-11-16T00:00:00Z app ")


def pem_tail_in_json(rng: random.Random) -> Document:
    lines = key_lines(rng, 8)
    return Document("\\n".join(lines) + '\\n-----END PRIVATE KEY-----\\n", "user": "bob"}', tuple(lines), ("bob",))


def pem_body(rng: random.Random) -> Document:
    body = ("MIIEpAIBAAKCAQEA" + base64.b64encode(rng.randbytes(900)).decode().rstrip("="))[:1200]
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return Document("\n".join(lines), tuple(lines))


def pem_one_line(rng: random.Random) -> Document:
    lines = key_lines(rng, 8)
    return Document("key: -----BEGIN PRIVATE KEY----- " + " ".join(lines) + " -----END PRIVATE KEY-----", tuple(lines))


def jwk_rsa(rng: random.Random) -> Document:
    members = {name: url_safe(rng) for name in ("d", "p", "q", "dp", "dq", "qi")}
    key = {"kty": "RSA", "kid": "a1", "n": url_safe(rng), "e": "AQAB", **members}
    return _json(rng, {"keys": [key]}, *members.values(), keep=("AQAB", "a1", key["n"]))


def jwk_ec(rng: random.Random) -> Document:
    d = url_safe(rng)
    key = {"kty": "EC", "crv": "P-256", "d": d, "x": url_safe(rng), "y": url_safe(rng)}
    return _json(rng, key, d, keep=("P-256", key["x"], key["y"]))


def jwk_oct(rng: random.Random) -> Document:
    k = url_safe(rng)
    return _json(rng, {"k": k, "alg": "HS256", "kty": "oct"}, k, keep=("HS256",))


def jwk_yaml(rng: random.Random) -> Document:
    d = url_safe(rng)
    return Document(f"kty: OKP\ncrv: Ed25519\nd: {d}\nx: abc\n", (d,), ("Ed25519",), "yaml")


def service_account(rng: random.Random) -> Document:
    lines = key_lines(rng, 6)
    pem = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(lines) + "\n-----END PRIVATE KEY-----\n"
    return Document(
        json.dumps({"type": "service_account", "private_key": pem, "client_email": "a@b.test"}),
        tuple(lines),
        ("a@b.test",),
        "json",
    )


def ssh_keygen_hex(rng: random.Random) -> Document:
    lines = [":".join(f"{byte:02x}" for byte in rng.randbytes(15)) + ":" for _ in range(6)]
    return Document(
        "Private-Key: (2048 bit)\nprivateExponent:\n" + "\n".join(f"    {line}" for line in lines) + "\nprime1:\n",
        tuple(lines),
    )


def ethereum(rng: random.Random) -> Document:
    value = "0x" + hexadecimal(rng) + hexadecimal(rng)
    return Document(f"Private key: {value}\nAddress: 0x1234", (value,), ("0x1234",))


def seed_phrase(rng: random.Random) -> Document:
    value = mnemonic(rng)
    form = rng.choice(
        ("Seed phrase: {}", "mnemonic={}", "recovery phrase: {}", 'MNEMONIC="{}"', "Your seed phrase is: {}")
    )
    return Document(form.format(value), (value,))


KEYS: tuple[Builder, ...] = (
    pem,
    pem_cut_below,
    pem_cut_above,
    pem_cut_above_indented,
    pem_in_log,
    pem_tail_in_json,
    pem_body,
    pem_one_line,
    jwk_rsa,
    jwk_ec,
    jwk_oct,
    jwk_yaml,
    service_account,
    ssh_keygen_hex,
    ethereum,
    seed_phrase,
)


# --------------------------------------------------------------------------- password files and codes

_CRYPT = "./" + string.ascii_letters + string.digits


def _crypt(rng: random.Random, size: int) -> str:
    return "".join(rng.choices(_CRYPT, k=size))


def htpasswd_apr1(rng: random.Random) -> Document:
    value = f"$apr1${_crypt(rng, 8)}${_crypt(rng, 22)}"
    return Document(f"bob:{value}\n", (value,), ("bob",))


def htpasswd_sha(rng: random.Random) -> Document:
    value = base64.b64encode(hashlib.sha1(rng.randbytes(9)).digest()).decode()
    return Document(f"bob:{{SHA}}{value}\n", (value,), ("bob",))


def ldap_ssha(rng: random.Random) -> Document:
    value = base64.b64encode(rng.randbytes(28)).decode()
    return Document(f"dn: uid=bob\nuserPassword: {{SSHA}}{value}\n", (value,), ("uid=bob",))


def ldif_base64(rng: random.Random) -> Document:
    value = base64.b64encode(spoken(rng).encode()).decode()
    return Document(f"dn: uid=bob\nuserPassword:: {value}\n", (value,), ("uid=bob",))


def shadow(rng: random.Random) -> Document:
    value = rng.choice(("$6$", "$5$")) + _crypt(rng, 12) + "$" + _crypt(rng, 86)
    return Document(f"root:{value}:19000:0:99999:7:::\n", (value,), ("root", "19000"))


def shadow_md5(rng: random.Random) -> Document:
    value = f"$1${_crypt(rng, 8)}${_crypt(rng, 22)}"
    return Document(f"root:{value}:19000:0:99999:7:::\n", (value,), ("root",))


def yescrypt(rng: random.Random) -> Document:
    value = f"$y$j9T${_crypt(rng, 22)}${_crypt(rng, 43)}"
    return Document(f"root:{value}:19000:0:99999:7:::\n", (value,), ("root",))


def django_hash(rng: random.Random) -> Document:
    value = f"pbkdf2_sha256$600000${_crypt(rng, 22)}${in_base64(rng)}"
    return _json(rng, {"model": "auth.user", "fields": {"username": "bob", "password": value}}, value, keep=("bob",))


def django_hash_bare(rng: random.Random) -> Document:
    value = in_base64(rng)
    return Document(f"bob | pbkdf2_sha256$600000$x7Yq2LmP0aZ1${value} | t", (value,), ("bob",))


def werkzeug_hash(rng: random.Random) -> Document:
    value = hexadecimal(rng) * 2
    return Document(f"hash scrypt:32768:8:1$Q0aZ1x7YqLmP2$${value}".replace("$$", "$"), (value,))


def phpass(rng: random.Random) -> Document:
    value = f"$P$B{_crypt(rng, 30)}"
    return Document(f"(1,'admin','{value}','admin','a@b.test')", (value,), ("a@b.test",))


def ntlm(rng: random.Random) -> Document:
    value = hexadecimal(rng)
    return Document(f"Administrator:500:aad3b435b51404eeaad3b435b51404ee:{value}:::", (value,), ("Administrator",))


def mysql_hash(rng: random.Random) -> Document:
    value = f"*{hashlib.sha1(rng.randbytes(9)).hexdigest().upper()}"
    return Document(f"CREATE USER 'a'@'%' IDENTIFIED BY PASSWORD '{value}'", (value,))


def postgres_scram(rng: random.Random) -> Document:
    value = in_base64(rng)
    return Document(f"SCRAM-SHA-256$4096:{in_base64(rng)[:22]}==${value}:{in_base64(rng)}", (value,))


def postgres_md5(rng: random.Random) -> Document:
    value = "md5" + hexadecimal(rng)
    return Document(f"ALTER ROLE bob PASSWORD '{value}';", (value,), ("bob",))


def pgpass(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(f"db.test:5432:shop:app:{value}\n", (value,), ("db.test:5432:shop:app",))


def userlist(rng: random.Random) -> Document:
    value = spoken(rng)
    return Document(f'"app" "md5{hexadecimal(rng)}"\npassword: "{value}"\n', (value,))


def recovery_codes(rng: random.Random) -> Document:
    codes = [f"{rng.getrandbits(20):05x}-{rng.getrandbits(20):05x}" for _ in range(4)]
    return Document(
        "Your recovery codes:\n" + "\n".join(f"- {code}" for code in codes), tuple(codes), ("Your recovery codes",)
    )


def backup_codes(rng: random.Random) -> Document:
    codes = [f"{rng.randrange(10**7, 10**8)}" for _ in range(4)]
    return Document("Backup codes: " + ", ".join(codes), tuple(codes), ("Backup codes",))


def verification_code(rng: random.Random) -> Document:
    value = f"{rng.randrange(100000, 999999)}"
    form = rng.choice(
        (
            "Your verification code is {}",
            "Your one-time code is {}.",
            "{} is your verification code",
            "Use code {} to sign in",
            "Your login code: {}",
            "OTP: {}",
            "Your security code is {}. Do not share it.",
            "verification_code={}",
        )
    )
    return Document(form.format(value), (value,))


def pin_line(rng: random.Random) -> Document:
    value = f"{rng.randrange(1000, 9999)}"
    return Document(rng.choice(("PIN: {}", "pin={}", "card PIN is {}", '{{"pin": "{}"}}')).format(value), (value,))


def reset_link(rng: random.Random) -> Document:
    value = url_safe(rng)
    path = rng.choice(("reset-password/{}", "reset?token={}", "invite/accept?code={}", "magic-link?t={}"))
    return Document(f"https://app.test/{path.format(value)}", (value,), ("https://app.test/",))


def cookie_line(rng: random.Random) -> Document:
    value = generated(rng) + "x1Y2"
    return Document(f"Set-Cookie: session={value}; Path=/; HttpOnly", (value,), ("HttpOnly",))


FILES: tuple[Builder, ...] = (
    htpasswd_apr1,
    htpasswd_sha,
    ldap_ssha,
    ldif_base64,
    shadow,
    shadow_md5,
    yescrypt,
    django_hash,
    django_hash_bare,
    werkzeug_hash,
    phpass,
    ntlm,
    mysql_hash,
    postgres_scram,
    postgres_md5,
    pgpass,
    userlist,
    recovery_codes,
    backup_codes,
    verification_code,
    pin_line,
    reset_link,
    cookie_line,
)
