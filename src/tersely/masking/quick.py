"""Tells texts in which cleaning and masking change nothing, without loading the rules.

Loading the rules takes several times as long as starting the interpreter, and most short
outputs of commands (a listing, a status, a handful of findings) have nothing they could
apply to. The test is one-sided: `True` means that no rule applies; everything in doubt is
`False`. Tests compare it with the rules on every text that is known to contain a secret.

Imports nothing.
"""

LONGEST = 16_384
"""In characters. Longer texts are always looked at by the rules."""

_NAMES = (
    "pass", "pwd", "pswd", "secret", "token", "key", "cred", "auth", "jwt", "bearer", "cookie", "signature", "login",
    "mnemonic", "sess", "cloudflare", "sourcegraph", "artifactory", "jfrog", "contribsys", "messagebird", "adobe",
    "sumo", "heroku", "snyk", "salt", "connectionstring", "webhook", "dsn", "_pat", "psk", "saml", "community",
    "phrase", "verifier", "sensitive", "mask", "conceal", "confidential", "secur", "encrypt", "noecho", "kty",
    "random_", "logon", "identified", "setuser", "sign_in", "signin", " using ", "conn", "mysqli", "pdo(", "begin",
    "pw_", "basic", "digest", "rabbitmq", "htpasswd", "private", "redis", "mysql", "sql", "ldap", "ftp", "zip", "7z",
    "rar", "mongo", "curl", "wget", "openssl", "docker", "podman", "helm", "kubectl", "license", "serial", "recovery",
    "backup", "invite", "reset", "magic", "verify", "confirm", "activate", "one-time", "onetime",
    "tok", "tkn", "pword", "seed", "pepper",
    "privkey", "sequelize", "createuser", "create_user", "imap_open", "_bind", "eap", "xauth", "com2sec", "ntlm",
    "ppk", "wifi:",
    "enroll", "unlock", "pwgen", "setsteam", "ssid", "sselinhalt", "__construct", "pincode", "pin_code",
    "config ", "config\t", "account",
)  # fmt: skip
"""Parts of words next to which a secret may stand, all that the rules look for and more."""

_WORDS = frozenset((
    "pin", "otp", "totp", "cvv", "cvc", "sig", "pw", "psw", "sid", "code", "codes", "pat", "user", "pa", "pass", "puk",
    "tan", "334",
))  # fmt: skip
_PROGRAMS = frozenset((
    "7z", "7za", "acr", "adduser", "argocd", "aws", "az", "bcp", "buildah", "cadaver", "cf", "clickhouse",
    "consul", "cqlsh", "crackmapexec", "crane", "cryptsetup", "doctl", "dscl", "evil",
    "expdp", "fly", "flyctl", "gh", "gpg", "ibmcloud",
    "impala", "impdp", "influx", "ipmitool", "iwctl", "kinit", "kitty", "luseradd", "machine", "mariadb", "mc",
    "mosquitto", "mount", "mstsc", "mycli", "nerdctl", "net", "net1", "netlify", "netsh", "nmcli", "npm", "oc", "oras",
    "paexec", "plink", "pnpm", "pscale", "pscp", "psexec", "psexec64",
    "putty", "rdesktop", "rman", "rpcclient", "runas",
    "schtasks", "skopeo", "smbclient", "ssh", "su", "sudo", "trino", "useradd", "usermod", "valkey", "vault", "vercel",
    "wfreerdp", "winexe", "wmic", "wpa", "wrangler", "xfreerdp", "xh", "yarn",
))  # fmt: skip
"""Programs that take a secret as an argument, as far as they are not in `_NAMES`."""

_FOREIGN = (
    "adgangskode", "schluessel", "chave", "chiave", "clave", "cle_", "codice", "contrasen", "contrasinal",
    "geheim", "geslo", "gizli", "haslo", "heslo", "jelszo", "sandi", "kennwort", "kodeord", "losenord", "lozinka",
    "khau", "mdp", "palavra", "parol", "parool", "salasana", "segredo", "senha", "sifre", "slaptazodis", "code",
    "wachtwoord", "nyckel", "sleutel", "klucz", "anahtar", "hemlighet",
)  # fmt: skip
"""Parts of words for passwords in other languages."""

_NOTES = ("shortened", "cut", "earlier", "structured", "a picture", "the summary", "…", "...")
_SIGNS = ("@", "://", "\\", "&#", "r_", "jdbc")
_OPTIONS = tuple(f" -{letter}" for letter in "pPawWuNbBSUAXckK")
_HARMLESS = ("passed ", "passed,", "passed\n", "passing\n", "tests pass\n")
_BESIDE_ASCII = frozenset("│├└┌┐┘┤┬┴┼─━═║╔╗╚╝✓✗✔✘•·…–—’‘“”→←↑↓×±°§©")
_PASSWORD_SIGNS = "!#$^*"
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_IN_RUNS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+=-:%~")
_LONGEST_PART = 15
"""Characters between signs that end a word; every token and everything encoded is longer."""


def is_plain(text: str) -> bool:
    """Whether nothing in the text can be a secret, a hidden character, or an imitation of what we write."""
    if len(text) > LONGEST:
        return False
    signs = set(text)
    if not all(" " <= sign <= "~" or sign in "\n\t" or sign in _BESIDE_ASCII for sign in signs):
        return False
    lower = text.lower()
    for words in _HARMLESS:
        lower = lower.replace(words, " ")
    if any(sign in lower for sign in _SIGNS) or any(name in lower for name in (*_NAMES, *_FOREIGN)):
        return False
    if any(option in text for option in _OPTIONS):
        return False
    if not signs.isdisjoint(_PASSWORD_SIGNS) and any(map(_is_coined, lower.split())):
        return False
    return _has_short_parts(text, signs) and _has_plain_words(lower) and _has_plain_lines(lower)


def _is_coined(word: str) -> bool:
    """Whether a word has a letter, a digit and a sign that only passwords have."""
    if not any(sign in word for sign in _PASSWORD_SIGNS):
        return False
    return any(char.isdigit() for char in word) and any(char.isalpha() for char in word)


def _has_short_parts(text: str, signs: set[str]) -> bool:
    """Whether every run of signs that a token or an encoded text may have is short."""
    for sign in signs - _IN_RUNS:
        text = text.replace(sign, " ")
    return all(len(run) <= _LONGEST_PART for run in text.split())


def _has_plain_words(lower: str) -> bool:
    """Whether no word announces a secret, and none is spelled letter by letter."""
    for sign in set(lower).difference(_LETTERS):
        lower = lower.replace(sign, " ")
    words = lower.split()
    single = 0
    for word in words:
        single = single + 1 if len(word) == 1 else 0
        if single > 3 or word in _WORDS or word in _PROGRAMS or word.startswith("snmp") or word.endswith("pw"):
            return False
    return True


def _has_plain_lines(lower: str) -> bool:
    """Whether no line has the form of a note or of a file of passwords."""
    for line in lower.split("\n"):
        if line.count(":") > 3 or line.count("%") > 1 or line.count("$") > 1:
            return False
        at = line.find("[")
        while at >= 0:
            if line[at + 1 :].lstrip().startswith(_NOTES):
                return False
            if not line[at + 1 :].strip():
                return False  # What follows is on the next line.
            at = line.find("[", at + 1)
    return True
