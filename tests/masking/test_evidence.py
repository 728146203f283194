"""Secrets in syntaxes that no rule knows: what the line says is weighed against how the value looks."""

import pytest

from tersely.masking.looks import Look, look
from tersely.masking.mask import Masker

MASKER = Masker(key=b"tests")

FOUND = [
    "set system radius-server 10.4.4.4 key «Dr4g0n33»",
    "config wlan security wpa akm psk set-key ascii «sunset.falcon.harbor47» 4",
    "[smtp.relay.test]:587    noreply@shop.test:«XGdeDymMdUfCDGOsdjoM»",
    'credentials "uid=replica,ou=system" «k3Q^U9pg.q»',
    "stats auth admin:«passion_copper6»",
    "Ticket 4711: customer sent root credentials root/«YtrFb_Tc~Jj» for host db7.",
    "I reset it to «Ferrari1963!» - have him change it on the next logon.",
    "We rotated the key, new one: «tgy6X4T7WU3vmzLPSLAIaXEuhm6xSqKAX7AjiJJp» (old one works until Friday)",
    "const signingKey = Buffer.from('«3ff0f15508dc95a49b09ebb2786363b595cacb977973121e766daf73479ec7ed»', 'hex');",
    'DBI->connect("dbi:Pg:dbname=shop;host=db1", "app", "«walnut_pickle3»", { RaiseError => 1 });',
    "Please use the following password to proceed to installation:\n\n«fe351339fa336aec30180d0cb95adce9»\n",
    "Пароль администратора — «dragon_lantern1»",
    "register => 49301234567:«usjfamtKsH»@sip.provider.test/49301234567",
    "'crypt' => [ 'key' => '«c0c4a2e4065d2f1ee0d867b5231f42f5»' ],",
    "isql -U sa -P «shadowSommer36» -S SYBPROD",
    "Enter passphrase for key '/home/a/.ssh/id': «copper_cactus_rocket61»",
    "runas: entered «Mymonkey147$» for CORP\\adm_tk at 10:14",
    "cipher = AES.new(b'«YdpZe7tbiqbzbeTs»', AES.MODE_CBC, iv)",
    'hmac.New(sha256.New, []byte("«zDAxYaItUrZHNs0Xvk3o4zkNN4iN0Usw»"))',
    'new S3Client("AKIAIOSFODNN7QWERTYU", "«it0wXkTUQnTxYKkNu7o+aja0QryuFn50KpNnNlar»")',
    "bind dn=cn=svc,dc=corp password=«gyaCaT.Rx7KJ» result=49",
    "$ bw get password mail.example.org\n«CLc^fcMl-#BjS»\n",
    "$ pulumi config get dbPassword\n«charlie_pepper2»\n",
    "Client secret\n«-WrSMzlQAZvVC9384mHYPuBbcR6rEeG8dH9eiDdC»\nCopy it now.",
    ":db_password => %q(«QN+GarTVC!n»),",
    "<RSAKeyValue><Modulus>xA7SEU</Modulus><D>«/q1YLjQ7qekN/d/OP9Q9UmWgFWQnvaUSpOMG4edX==»</D></RSAKeyValue>",
]

KEPT = [
    "Failed password for invalid user deploy42 from 198.51.100.23 port 51122 ssh2",
    "smtp_sasl_password_maps = hash:/etc/postfix/sasl_passwd",
    "ssl.key.password=${file:/etc/kafka/secrets.properties:ssl.key.password}",
    "has_secure_password :recovery_password, validations: false",
    "gpg: using RSA key af9d96348676b326906e6a679efd9ce2054a108a",
    'pwd for the zip: see the vault entry "Backup-2026"',
    "Login: admin-User1 (last seen 2026-11-01)",
    "key: value-2026-Nov",
    "Required By     : browserpass  debian-archive-keyring  plasma5support",
    "密码必须至少包含8个字符",
    "networkd[195]: CI46 - Perform CrazyIvan46! QQ.10018",
    'Cipher.getInstance("AES/GCM/NoPadding")',
    '"node_id": "MDExOlB1bGxSZXF1ZXN0NDA4ODk4MTU4",',
    "key rotation: kms-key-2026-q4 -> kms-key-2027-q1",
    'Secret "shop-tls-2026" not found in namespace "payments-eu1"',
    "  --peer-client-cert-auth=true --listen=https://${NODE_master_0_IP}:2379",
    "SecretArn  Type: String  Default: arn:aws:secretsmanager:eu-west-1:1:secret:x-1a2B3c",
    "object key=backups/db/2026-11-02T03-00-00Z.dump.zst size=4.1GB",
    "$ kubectl get secret pg-app2 -o name\nsecret/pg-app2\n",
    "Primary key\norders_customer_idx_v2\n",
    '"token": "xoxp-XXXXXXXXXX-XXXXXXXXXX-XXXXXXXXXXX-XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX"',
]


@pytest.mark.parametrize("text", FOUND)
def test_a_line_and_a_look_give_a_secret_away(text: str) -> None:
    before, _, rest = text.partition("«")
    secret, _, after = rest.partition("»")
    masked = MASKER.mask(before + secret + after)
    assert secret not in masked and masked.startswith(before.partition("AKIA")[0]) and masked.endswith(after)
    assert MASKER.mask(masked) == masked


@pytest.mark.parametrize("text", KEPT)
def test_what_is_known_for_something_else_stays(text: str) -> None:
    assert MASKER.mask(text) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"2026-11-02T10:11:12Z", Look.NOTHING),
        (b"orders-worker-2", Look.NOTHING),
        (b"ECDHE-RSA-AES256-GCM-SHA384", Look.NOTHING),
        (b"passion_copper6", Look.POSSIBLE),
        (b"m0nk3y#63", Look.COINED),
        (b"usjfamtkshqwzrtp", Look.COINED),
        (b"tgy6X4T7WU3vmzLPSLAIaXEu", Look.EVIDENT),
    ],
)
def test_looks(value: bytes, expected: Look) -> None:
    assert look(value) is expected


def test_every_word_of_a_long_line_is_weighed() -> None:
    assert "Abc7x!yQ2" not in MASKER.mask("password is Abc7x!yQ2 key " * 400)
