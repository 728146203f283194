"""E-mail by SMTP: one message per connection, with the phase in which it failed.

Up to the end of the recipients nothing has been sent. Once the content is on its way,
a lost connection leaves the outcome unknown.
"""

import smtplib
import ssl
from email.message import EmailMessage

from tersely.sessions.notification_options import EmailOptions
from tersely.sessions.slack import MaybeSent, NeverSent, NotSentYet


def send_email(options: EmailOptions, message: EmailMessage, recipients: tuple[str, ...]) -> None:
    """Send a message; blocks, so call it in a thread.

    Raises:
        NotificationError: See its classes.
    """
    smtp = _connection(options)
    try:
        try:
            _answered(smtp.mail(options.sender))
            for recipient in recipients:
                _answered(smtp.rcpt(recipient))
            # DATA is only answered with 354 before the content follows.
            _answered(smtp.docmd("DATA"), expected=354)
        except (OSError, smtplib.SMTPException) as problem:
            raise NotSentYet(f"the mail server ended the connection ({type(problem).__name__})") from None
        try:
            smtp.send(_as_data(message))
            answer = smtp.getreply()
        except (OSError, smtplib.SMTPException) as problem:
            raise MaybeSent(f"no answer to the content ({type(problem).__name__})") from None
        _answered(answer)
    finally:
        smtp.close()


def check_email(options: EmailOptions) -> None:
    """Connect and log in, without sending anything.

    Raises:
        NotificationError: It does not work.
    """
    _connection(options).close()


def _connection(options: EmailOptions) -> smtplib.SMTP:
    """
    Raises:
        NotificationError: Nothing was sent.
    """
    try:
        return _connected(options)
    except smtplib.SMTPAuthenticationError as refusal:
        raise NeverSent(f"the mail server does not accept the account (code {refusal.smtp_code})") from None
    except smtplib.SMTPNotSupportedError as problem:
        raise NeverSent(f"the mail server lacks a feature: {problem}"[:200]) from None
    except ssl.SSLCertVerificationError as problem:
        raise NeverSent(f"the certificate of the mail server is not valid: {problem.verify_message}") from None
    except (OSError, smtplib.SMTPException) as problem:
        raise NotSentYet(f"no connection to the mail server ({type(problem).__name__})") from None


def _connected(options: EmailOptions) -> smtplib.SMTP:
    context = ssl.create_default_context()
    smtp: smtplib.SMTP
    if options.security == "tls":
        smtp = smtplib.SMTP_SSL(options.host, options.port, timeout=options.timeout, context=context)
    else:
        smtp = smtplib.SMTP(options.host, options.port, timeout=options.timeout)
    try:
        smtp.ehlo_or_helo_if_needed()
        if options.security == "starttls":
            smtp.starttls(context=context)
            smtp.ehlo()
        if options.password is not None:
            smtp.login(options.username, options.password.get_secret_value())
    except BaseException:
        smtp.close()
        raise
    return smtp


def _answered(answer: tuple[int, bytes], *, expected: int = 250) -> None:
    code, text = answer
    if code == expected or (expected == 250 and 200 <= code < 300):
        return
    reason = f"code {code}: {text.decode('utf-8', 'replace')[:150]}"
    # 4yz is transient and 5yz permanent (RFC 5321, 4.2.1).
    raise NotSentYet(reason) if 400 <= code < 500 else NeverSent(reason)


def _as_data(message: EmailMessage) -> bytes:
    """The message with dots doubled at the beginning of lines, and the line that ends it."""
    lines = message.as_bytes().replace(b"\r\n", b"\n").split(b"\n")
    body = b"\r\n".join(b"." + line if line.startswith(b".") else line for line in lines)
    return body.rstrip(b"\r\n") + b"\r\n.\r\n"
