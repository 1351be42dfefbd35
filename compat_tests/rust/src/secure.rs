//! Connecting to a server with authentication: TLS, tokens, passwords, tokens that expire; and being refused.

use std::time::Duration;

use async_trait::async_trait;
use pulsar::authentication::basic::BasicAuthentication;
use pulsar::authentication::Authentication as Provider;
use pulsar::error::{AdminError, AuthenticationError};
use pulsar::{Authentication, Error, Pulsar, PulsarBuilder, SubType, TokioExecutor};

use crate::support::*;

/// Where the server is, with a folder: `authority.pem`, `stranger.pem`, and a file `ROLE.token` for each role.
#[derive(Clone)]
pub struct Site {
    pub plain: String,
    pub tls: String,
    pub folder: String,
    pub https: String,
}

impl Site {
    fn builder(&self, url: &str) -> PulsarBuilder<TokioExecutor> {
        Pulsar::builder(url, TokioExecutor).with_operation_retry_options(retries())
    }

    fn trusting(&self, authority: &str) -> Outcome<PulsarBuilder<TokioExecutor>> {
        Ok(self.builder(&self.tls).with_certificate_chain_file(format!("{}/{authority}", self.folder))?)
    }

    fn token(&self, role: &str) -> Outcome<Authentication> {
        let data = std::fs::read(format!("{}/{role}.token", self.folder))?;
        Ok(Authentication { name: "token".to_owned(), data })
    }

    fn topic(&self, name: &str) -> String {
        format!("persistent://secured/orders/rust-{name}")
    }

    async fn round(&self, builder: PulsarBuilder<TokioExecutor>, name: &str) -> Checked {
        let client = builder.build().await?;
        let topic = self.topic(name);
        let subscribing = client.consumer().with_topic(&topic).with_subscription("dave").with_options(earliest());
        let mut consumer: Incoming = subscribing.with_subscription_type(SubType::Exclusive).build().await?;
        let mut producer = client.producer().with_topic(&topic).build().await?;
        send_numbered(&mut producer, "m", 5).await?;
        same(take(&mut consumer, 5).await?, numbered("m", 0..5))
    }
}

/// Reads the token from a file at each login; the driver renews that file.
struct TokenFile(String);

#[async_trait]
impl Provider for TokenFile {
    fn auth_method_name(&self) -> String {
        "token".to_owned()
    }

    async fn initialize(&mut self) -> Result<(), AuthenticationError> {
        Ok(())
    }

    async fn auth_data(&mut self) -> Result<Vec<u8>, AuthenticationError> {
        std::fs::read(&self.0).map_err(|error| AuthenticationError::Custom(error.to_string()))
    }
}

pub async fn token(site: Site) -> Checked {
    let builder = site.builder(&site.plain).with_auth(site.token("dave")?);
    site.round(builder, "token").await
}

pub async fn token_over_tls(site: Site) -> Checked {
    let builder = site.trusting("authority.pem")?.with_auth(site.token("dave")?);
    site.round(builder, "tls").await
}

pub async fn tls_unchecked(site: Site) -> Checked {
    let builder = site.builder(&site.tls).with_allow_insecure_connection(true).with_auth(site.token("dave")?);
    site.round(builder.with_tls_hostname_verification_enabled(false), "tls").await
}

pub async fn password(site: Site) -> Checked {
    let builder = site.builder(&site.plain).with_auth_provider(BasicAuthentication::new("dave", "pass:word"));
    site.round(builder, "password").await
}

pub async fn stranger_server(site: Site) -> Checked {
    let built = site.trusting("stranger.pem")?.with_auth(site.token("dave")?).build().await;
    ensure(built.is_err(), "trusts a server that an unknown authority signed")
}

pub async fn bad_credentials(site: Site) -> Checked {
    let forged = Authentication { name: "token".to_owned(), data: b"not.a.token".to_vec() };
    come_in(site.builder(&site.plain).with_auth(forged)).await?;
    come_in(site.builder(&site.plain).with_auth_provider(BasicAuthentication::new("dave", "password"))).await?;
    come_in(site.builder(&site.plain).with_auth(site.token("expired")?)).await
}

/// Connects and must be refused. The client reports the server's error, or hides it behind an error of its own.
async fn come_in(builder: PulsarBuilder<TokioExecutor>) -> Checked {
    let error: Error = builder.build().await.err().ok_or("came in")?;
    let kind = kind_of(&error);
    ensure(kind == "AuthenticationError" || kind.contains("fatal error when connecting"), kind)
}

pub async fn not_allowed(site: Site) -> Checked {
    let alice = site.builder(&site.plain).with_auth(site.token("alice")?).build().await?;
    let bob = site.builder(&site.plain).with_auth(site.token("bob")?).build().await?;
    let carl = site.builder(&site.plain).build().await?;
    let topic = site.topic("permissions");
    alice.producer().with_topic(&topic).build().await?;
    bob.consumer().with_topic(&topic).with_subscription("bob").build::<String>().await?;
    refused(
        alice.consumer().with_topic(&topic).with_subscription("alice").build::<String>().await,
        "AuthorizationError",
    )?;
    refused(bob.producer().with_topic(&topic).build().await, "AuthorizationError")?;
    refused(carl.producer().with_topic(&topic).build().await, "AuthorizationError")
}

pub async fn admin_over_tls(site: Site) -> Checked {
    let topic = site.topic("unseen");
    let client = site.trusting("authority.pem")?.with_auth(site.token("dave")?).build().await?;
    ensure(client.admin(&*site.https)?.get_schema(&topic).await?.is_none(), "a schema that nobody gave")?;
    let stranger = site.trusting("authority.pem")?.with_auth(site.token("expired")?);
    ensure(stranger.build().await.is_err(), "came in")?;
    let other = "persistent://public/default/unseen";
    match client.admin(&*site.https)?.get_schema(other).await {
        Err(Error::Admin(AdminError::Http { status, .. })) => same(status, 401),
        answer => Err(format!("{answer:?} for a topic of others").into()),
    }
}

/// The token in the file lives for seconds and the driver renews it. The client cannot refresh it, so it reconnects.
pub async fn renewed(site: Site) -> Checked {
    let provider = Box::new(TokenFile(format!("{}/brief.token", site.folder)));
    let mut patient = retries();
    patient.max_retries = Some(20);
    let builder = site.builder(&site.plain).with_auth_provider(provider).with_operation_retry_options(patient);
    let client = builder.build().await?;
    let topic = site.topic("renewed");
    let subscribing = client.consumer().with_topic(&topic).with_subscription("dave").with_options(earliest());
    let mut consumer: Incoming = subscribing.with_subscription_type(SubType::Failover).build().await?;
    let mut producer = client.producer().with_topic(&topic).build().await?;
    for number in 0..40 {
        send(&mut producer, format!("m{number}")).await?;
        let mut came = take(&mut consumer, 1).await?;
        // An acknowledgement is lost when the server closes the connection while it is on its way.
        while number > 0 && came == numbered("m", number - 1..number) {
            came = take(&mut consumer, 1).await?;
        }
        same(came, numbered("m", number..number + 1))?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}
