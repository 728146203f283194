"""What commands print without any secret in it stays as it is; secrets in the same places are still masked.

Each text is the shape of a real output that was damaged: packages with `passwd` among them, a trace, a certificate.
"""

import base64

import pytest

from tersely.masking.mask import Masker

MASKER = Masker(key=b"tests")

PACKAGES = """\
ii  base-passwd            3.6.1            amd64   Debian base system master password and group files
ii  bash                   5.2.15-2+b8      amd64   GNU Bourne Again SHell
ii  bind9-host             1:9.18.49-1      amd64   DNS Lookup Utility
ii  clang-14               1:14.0.6-12      amd64   C, C++ and Objective-C compiler
ii  passwd                 1:4.13+dfsg1-1   amd64   change and administer password and group data
"""
HEX_DUMP = """\
000032e0  6f 6e 00 42 4e 5f 73 75  62 00 45 43 5f 4b 45 59  |on.BN_sub.EC_KEY|
00003340  6f 63 74 32 70 6f 69 6e  74 00 52 53 41 5f 73 65  |oct2point.RSA_se|
00003350  5f 73 68 61 32 35 36 00  44 48 5f 66 72 65 65 00  |_sha256.DH_free.|
"""
TRACE = """\
execve("/usr/bin/cat", ["cat", "/etc/passwd"], 0x7ffd4c2f1a88 /* 24 vars */) = 0
openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3
mmap(NULL, 27002, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f3a5c2d1000
"""
CERTIFICATE_NAMES = (
    b'\x30\x1e Certum Certification Authority1$0"\x06 Example CA Limited1!0\x1f\x06 Trusted Network CA\x00' * 4
)


def certificate() -> str:
    body = base64.encodebytes(CERTIFICATE_NAMES).decode()
    return f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"


ORDINARY = {
    "dpkg -l": PACKAGES,
    "dpkg-query -W": "base-passwd\t3.6.1\nbash\t5.2.15-2+b8\nbind9-host\t1:9.18.49-1\n",
    "dpkg --get-selections": "base-passwd\tinstall\nbind9-host\tinstall\nclang-14\tinstall\n",
    "dpkg --get-selections, below another row": "bash\tinstall\nlibpam-passwd\tinstall\nclang-14\tinstall\n",
    "apt list": "passwd/stable,now 1:4.13+dfsg1-1+deb12u1 amd64 [upgradable to: 1:4.13+dfsg1-1+deb12u2]\n",
    "rpm -qa": "openssl-3.0.7-2.el9.x86_64\npasswd-1:4.13+dfsg1-1.el9.x86_64\n",
    "dnf list": "passwd.x86_64       1:4.13+dfsg1-1+deb12u1     @baseos\n",
    "conffiles": " /etc/pam.d/chpasswd 9900720564cb4ee98b7da29e2d183cb2\n"
    " /etc/pam.d/passwd eaf2ad85b5ccd06cceb19a3e75f40c63\n",
    "package.json": '{"dependencies": {"minipass": "^7.1.3", "fs-minipass": "~3.0.0", "getpass": "0.1.7"}}\n',
    "a lock file": "      minipass: 7.1.2\n      ssh2-pass: 1.4.0\n",
    "RECORD": (
        "pygments/token.py,sha256=DVil5T2ltHkTgQTUYy1dMtgyigjavCs1ypE4Qf2CrGo,6229\n"
        "auth/password.py,sha256=XXjKGEGwgZlF2uhjKUWTDuwBua348rjpG_ujX0l5Aoo,5839\n"
        "wrappers/prefix_keys/wrapper.py,sha256=UVTaOrg_tRJib009G5a4WDeh1Jk8sDFAIk_l6Ang0XU,3294\n"
    ),
    "hexdump -C": HEX_DUMP,
    "strace": TRACE,
    "certificates": certificate() * 3,
    "certificates in JSON": certificate().replace("\n", "\\n").join(('{"ca": "', '"}')),
    "openssl x509": (
        "        Signature Algorithm: sha256WithRSAEncryption\n    Signature Algorithm: ecdsa-with-SHA384\n"
        "            X509v3 Authority Key Identifier: \n"
        "                keyid:1A:ED:FE:41:39:90:B4:24:59:BE:01:F2:52:D5:45:F6:5A:39:DC:11\n"
    ),
    "a commit": (
        "    older protocol asks clients of the newer one by input_required. Tasks of\n"
        "    2025-11-25 pass, and run here for clients without them. Streams that broke can\n"
        "    be resumed for 5 seconds. Elicitation comes in the modes that were declared,\n"
    ),
    "a prompt in Python": "def unix_getpass(prompt='Password: ', stream=None):\n",
    "a prompt in JavaScript": "  const password = await read.password('Password:', creds.password)\n",
    "a prompt in a changelog": '\tPrefix the messages with "passwd: ", only indicate a password\n',
    "python -m dis": " 29   82 LOAD_CONST   13 (('Password: ', None))\n",
    "an alternative": (
        "      username: forceAuth.username,\n      password: forceAuth._password || forceAuth.password,\n"
        "      certfile: forceAuth.certfile,\n"
    ),
    "an attribute": "        self.password = credentials\n",
    "several variables": "    netloc, user_password = split_login(netloc)\n"
    "    index_url, _, index_password = index_info\n",
    "a chain of assignments": "    userid = passwd = acct = ''\n",
    "an encoding": "const p = Buffer.from(password, 'base64').toString('utf8')\n",
    "names of variables in a list": "if name.endswith(('_PASSWORD', '_API_KEY', '_TOKEN')):\n",
    "names of classes in a list": "__all__ = ['HTTPPasswordMgr', 'HTTPPasswordMgrWithDefaultRealm',\n]\n",
    "calls in a list": "tokens = [KnownToken(token.name, bytes.fromhex(token.sha256), frozenset(token.scopes))]\n",
    "empty settings": 'complete -W "username= passphrase= password= scmVersion= tag="\n',
    "a format": "user_pass = '%s:%s' % (user, password)\n",
    "an expression": "\tx = bits.RotateLeft32((arg2^arg3)&arg1) + (secs*100)%100\n",
    "a bundled script": "function keyBy(collection, iteratee$1) {\n",
    "names with a star": " * Rename functions of the form `FIPS_x931*`, and iso2022* cases.\n",
    "functions": " * Add EC_KEY_get0_engine(), which does for EC_KEY what RSA_get0_engine() does.\n",
    "constants": "    as OpenSSL's PKCS5_PBKDF2_HMAC for short passwords and much faster\n",
    "a type in Go": "type cipher struct {\n\tkey     [32]byte\n}\n",
    "a pattern": "jsonnet_token = r'[^\\W\\d]\\w*'\n",
    "options in a case": "            -readpass | -pkcs11engine | -pkcs11module | -in)\n",
    "the page of a manual": (
        "       --use-askpass=COMMAND\n       --change-passphrase user-id\n"
        "       See also -x, --proxy and --proxy-tlspassword. Added in 7.52.0.\n"
        "       Pass a string containing a Base64-encoded hash.\n"
        "       login. In case of a password expiration, the user is not allowed to\n"
        "       the new --password options.\n"
    ),
    "usage": "  kubectl config set-credentials NAME [--client-certificate=path/to/certfile] [--token=bearer_token]\n",
    "the syntax of an address": "  The syntax thus is [protocol://][user[:password]@]proxyhost[:port].\n",
    "addresses near chpasswd": "\tchpasswd: see\n\thttp://bugs.debian.org/cgi-bin/bugreport.cgi?bug=260636).\n",
    "examples without a value": "export SLACK_TOKEN=xoxb-…\nOPENROUTER_API_KEY=sk-or-…\n"
    "(`mysql -p…`), ERROR login failed, password=[MASKED:password:…]\n",
}  # fmt: skip


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_output_without_a_secret_stays_as_it_is(text: str) -> None:
    assert MASKER.mask(text) == text


SECRETS = {
    "a table": ("id | user | password\n---+------+---------\n 1 | bob  | Walnut-91x\n", "Walnut-91x"),
    "a table below another one": ("id\tname\n1\tbob\nuser\tpassword\nbob\thunter2x\n", "hunter2x"),
    "a table below a sentence": ("Exported 3 users, done\nuser,password\nuser,hunter2x\n", "hunter2x"),
    "a heading with a number": ("user,2fa secret\nbob,JBSWY3DPEHPK3PXP\n", "JBSWY3DPEHPK3PXP"),
    "a birthday": ("password = 12.05.1987\n", "12.05.1987"),
    "a date with a sign": ("password: ~2024\n", "~2024"),
    "a password like a version": ("DB_PASSWORD=4.13-Walnut\n", "4.13-Walnut"),
    "a wireless key": ("wpa key 0x1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f\n", "0x1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f"),
    "the password in a file": ("/etc/app/db_password:Walnut-91xQ7\n", "Walnut-91xQ7"),
    "a generated word after a file": ("/etc/app/db_password Xk9vQ2mLpR7tWz4b\n", "Xk9vQ2mLpR7tWz4b"),
    "a hash of a password": ("password sha256:Xk9vQ2mLpR7tWz4bNc8d\n", "Xk9vQ2mLpR7tWz4bNc8d"),
    "a remark in brackets": ("the password is Walnut42!(temporary)\n", "Walnut42!"),
    "a pair in a sentence": ("host db1, user bob, password = swordfish\n", "swordfish"),
    "variables in a sentence": ("login, password = swordfish\n", "swordfish"),
    "after a prompt": ("print('Password: ')\npassword: 'Walnut-91x'\n", "Walnut-91x"),
    "a string after an apostrophe": ("don't forget password: 'Walnut-91x'\n", "Walnut-91x"),
    "a wrapped private key": (
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\npassword=Walnut-91x\n", "Walnut-91x"
    ),
    "a default": ("os.environ.setdefault('DB_PASSWORD', 'my!secret!Walnut')\n", "my!secret!Walnut"),
    "a device": ("username bob privilege 15 secret 5 Walnut91xQ\n", "Walnut91xQ"),
    "a router": ("/ppp secret add name=bob password Walnut-91x\n", "Walnut-91x"),
    "two names of a device": ("neighbor 10.0.0.1 password Walnut91xQ description secret peer\n", "Walnut91xQ"),
    "a word with a star": ("try Winter2024* next\n", "Winter2024*"),
    "a word with a sign": ("try Passw0rd$1 next\n", "Passw0rd$1"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_secrets_in_the_same_places_are_masked(text: str, secret: str) -> None:
    assert secret not in MASKER.mask(text)
