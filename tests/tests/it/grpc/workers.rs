//! The worker stream: workers that say too little, too much, or what cannot be.

use anyhow::{Context as _, Result, bail, ensure};
use stepwell_proto::v1::attach_request::Message as Say;
use stepwell_proto::v1::attach_response::Message as Hear;
use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::worker_service_client::WorkerServiceClient;
use stepwell_proto::v1::{
    AttachRequest, AttachResponse, Call, CallReport, Credit, Hello, ListToolsRequest,
    SessionStatus, ToolOffer,
};
use stepwell_tests::{SOON, Stage, agent_with, until};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

const SCRIPT: &str = "[[step]]\ntool_calls = [{ name = \"ship\", arguments = { order = 7 } }]\n\
    [[step]]\ncontent = \"Shipped.\"";

/// A worker by hand.
struct Hand {
    say: mpsc::Sender<AttachRequest>,
    hear: Streaming<AttachResponse>,
}

fn ship() -> ToolOffer {
    ToolOffer {
        name: "ship".into(),
        description: "Ships an order.".into(),
        parameters: r#"{"type":"object","properties":{"order":{"type":"integer"}}}"#.into(),
        effect: "write".into(),
        timeout_ms: 60_000,
        ..ToolOffer::default()
    }
}

fn hello(name: &str, tools: Vec<ToolOffer>) -> Hello {
    let (name, instance) = (name.to_owned(), format!("{name}-1"));
    Hello { name, instance, tools, concurrency: 2, held: Vec::new() }
}

impl Hand {
    /// Opens a stream with that first message.
    async fn attach(stage: &Stage, first: Say) -> Result<Self, Status> {
        let (say, said) = mpsc::channel(16);
        // There is room for the first one.
        let _ = say.try_send(AttachRequest { message: Some(first) });
        let mut client = WorkerServiceClient::new(stage.api.channel());
        let hear = client.attach(ReceiverStream::new(said)).await?.into_inner();
        Ok(Self { say, hear })
    }

    /// A worker that was let in and has room.
    async fn welcome(stage: &Stage, name: &str) -> Result<Self> {
        let mut hand = Self::attach(stage, Say::Hello(hello(name, vec![ship()]))).await?;
        ensure!(matches!(hand.hear().await?, Hear::Welcome(_)), "no welcome");
        hand.say(Say::Credit(Credit { calls: 1 })).await?;
        Ok(hand)
    }

    async fn say(&self, message: Say) -> Result<()> {
        let sent = self.say.send(AttachRequest { message: Some(message) }).await;
        sent.context("the stream is closed")
    }

    async fn hear(&mut self) -> Result<Hear> {
        let message = tokio::time::timeout(SOON, self.hear.message()).await?;
        message?.and_then(|it| it.message).context("the stream ended")
    }

    async fn call(&mut self) -> Result<Call> {
        loop {
            if let Hear::Call(call) = self.hear().await? {
                return Ok(call);
            }
        }
    }

    /// How the stream ends.
    async fn end(&mut self) -> Result<Status> {
        loop {
            match tokio::time::timeout(SOON, self.hear.message()).await? {
                Ok(Some(_)) => {}
                Ok(None) => bail!("the stream ended without a word"),
                Err(status) => return Ok(status),
            }
        }
    }
}

fn report(call: &Call, output: &str) -> CallReport {
    CallReport {
        session_id: call.session_id.clone(),
        call_id: call.call_id.clone(),
        attempt: call.attempt,
        fence: call.fence,
        outcome: Outcome::Ok.into(),
        output: output.to_owned(),
        ..CallReport::default()
    }
}

/// A session that wants to ship, without asking.
async fn shipping(stage: &Stage) -> Result<String> {
    let agent = agent_with(&["ship"], "[[approval.rules]]\ntool = \"ship\"\nverdict = \"allow\"");
    stage.api.create("Ship it.", &agent).await
}

#[tokio::test]
async fn a_worker_that_does_not_begin_with_hello_is_refused() -> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    for first in [Say::Credit(Credit { calls: 8 }), Say::Report(CallReport::default())] {
        let status = Hand::attach(&stage, first).await.err().context("it was let in")?;
        ensure!(status.code() == Code::InvalidArgument, "{status:?}");
        ensure!(status.message().contains("hello"), "{status:?}");
    }
    let mut twice = Hand::welcome(&stage, "twice").await?;
    twice.say(Say::Hello(hello("twice", vec![ship()]))).await?;
    ensure!(twice.end().await?.code() == Code::InvalidArgument);
    Ok(())
}

#[tokio::test]
async fn a_worker_with_a_schema_that_is_none_or_a_name_that_is_taken_is_refused_with_the_reason()
-> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let with = |change: fn(&mut ToolOffer)| {
        let mut tool = ship();
        change(&mut tool);
        hello("liar", vec![tool])
    };
    for (wrong, code, words) in [
        (with(|it| it.parameters = "{".into()), Code::InvalidArgument, "ship"),
        (with(|it| it.parameters = r#"{"type":"strin"}"#.into()), Code::InvalidArgument, "ship"),
        (with(|it| it.parameters = r#"{"type":"array"}"#.into()), Code::InvalidArgument, "object"),
        (with(|it| it.output_schema = "7".into()), Code::InvalidArgument, "output"),
        (with(|it| it.effect = "destroy".into()), Code::InvalidArgument, "destroy"),
        (with(|it| it.name = "two words".into()), Code::InvalidArgument, "two words"),
        (with(|it| it.name = "ask_user".into()), Code::InvalidArgument, "ask_user"),
        (with(|it| it.timeout_ms = 0), Code::InvalidArgument, "time limit"),
        (hello("embedded", vec![ship()]), Code::InvalidArgument, "embedded"),
        (hello("", vec![ship()]), Code::InvalidArgument, "name"),
        (hello("counter", vec![ship()]), Code::AlreadyExists, "counter"),
    ] {
        let status = Hand::attach(&stage, Say::Hello(wrong)).await.err().context(words)?;
        ensure!(status.code() == code && status.message().contains(words), "{words}: {status:?}");
    }
    let tools = stage.api.agents().list_tools(ListToolsRequest {}).await?.into_inner().tools;
    ensure!(tools.iter().all(|it| it.name != "ship"), "a refused worker left its tools");
    Ok(())
}

#[tokio::test]
async fn a_report_with_a_fence_a_call_or_an_attempt_that_is_not_its_own_changes_nothing()
-> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let mut honest = Hand::welcome(&stage, "honest").await?;
    let session_id = shipping(&stage).await?;
    let call = honest.call().await?;
    ensure!(call.idempotency_key == format!("{session_id}/{}", call.call_id), "{call:?}");
    let liar = Hand::welcome(&stage, "liar").await?;
    let lie = report(&call, "a lie");
    for wrong in [
        CallReport { fence: call.fence + 1, ..lie.clone() },
        CallReport { fence: 0, ..lie.clone() },
        CallReport { attempt: call.attempt + 1, ..lie.clone() },
        CallReport { call_id: "9.9".into(), ..lie.clone() },
        CallReport { session_id: "7ZZZZZZZZZZZZZZZZZZZZZZZZZ".into(), ..lie.clone() },
        CallReport { outcome: 0, ..lie.clone() },
        CallReport { outcome: 99, ..lie.clone() },
    ] {
        honest.say(Say::Report(wrong)).await?;
    }
    // Another worker with the right fence: the call is not its own.
    liar.say(Say::Report(lie.clone())).await?;
    honest.say(Say::Report(report(&call, "the truth"))).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let events = stage.api.events(&session_id).await?;
    let results: Vec<_> = events.iter().filter(|it| it.kind == "tool_finished").collect();
    ensure!(results.len() == 1 && results[0].text("output") == "the truth", "{results:?}");
    ensure!(results[0].actor == "worker:honest@honest-1", "{results:?}");
    Ok(())
}

#[tokio::test]
async fn a_worker_that_lies_again_and_again_is_cut_off_and_hurts_nobody_else() -> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let mut honest = Hand::welcome(&stage, "honest").await?;
    let session_id = shipping(&stage).await?;
    let call = honest.call().await?;
    let mut liar = Hand::welcome(&stage, "liar").await?;
    for number in 0..16 {
        let lie = CallReport { fence: call.fence + number, ..report(&call, "a lie") };
        if liar.say(Say::Report(lie)).await.is_err() {
            break;
        }
    }
    let status = liar.end().await?;
    ensure!(status.code() == Code::FailedPrecondition, "{status:?}");
    honest.say(Say::Report(report(&call, "the truth"))).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    Ok(())
}

#[tokio::test]
async fn a_call_is_sent_only_against_a_credit() -> Result<()> {
    let stage = Stage::counting(SCRIPT).await?;
    let mut hand = Hand::attach(&stage, Say::Hello(hello("poor", vec![ship()]))).await?;
    ensure!(matches!(hand.hear().await?, Hear::Welcome(_)));
    let session_id = shipping(&stage).await?;
    stage.api.until_event(&session_id, "a schedule", |it| it.kind == "tool_scheduled").await?;
    // Whatever the server wants to send would come before the answer to this connection's ping.
    let sent = until("nothing", async || {
        stage.api.session(&session_id).await?;
        Ok(Some(stage.api.events(&session_id).await?.iter().any(|it| it.kind == "tool_dispatched")))
    });
    ensure!(!sent.await?, "it was given to a worker without room");
    hand.say(Say::Credit(Credit { calls: 1 })).await?;
    let call = hand.call().await?;
    hand.say(Say::Report(report(&call, "shipped"))).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    Ok(())
}

#[tokio::test]
async fn a_worker_that_comes_back_after_a_kill_of_the_server_reports_and_nothing_runs_twice()
-> Result<()> {
    let mut stage = Stage::counting(SCRIPT).await?;
    let mut hand = Hand::welcome(&stage, "honest").await?;
    let session_id = shipping(&stage).await?;
    let call = hand.call().await?;
    stage.kill_and_start().await?;
    let mut back = hello("honest", vec![ship()]);
    back.held.push(stepwell_proto::v1::HeldCall {
        session_id: call.session_id.clone(),
        call_id: call.call_id.clone(),
        attempt: call.attempt,
        fence: call.fence,
    });
    let mut hand = Hand::attach(&stage, Say::Hello(back)).await?;
    hand.say(Say::Credit(Credit { calls: 2 })).await?;
    let probe = loop {
        match hand.hear().await? {
            Hear::Probe(probe) => break probe,
            Hear::Call(call) => bail!("it was started again: {call:?}"),
            Hear::Welcome(_) | Hear::Cancel(_) | Hear::Ack(_) => {}
        }
    };
    ensure!(probe.call_id == call.call_id && probe.fence != call.fence, "{probe:?}");
    // The old number no longer counts.
    hand.say(Say::Report(report(&call, "under the old fence"))).await?;
    let fence = probe.fence;
    hand.say(Say::Report(CallReport { fence, ..report(&call, "shipped") })).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let finished = stage.api.until_event(&session_id, "a result", |it| it.kind == "tool_finished");
    ensure!(finished.await?.text("output") == "shipped");
    Ok(())
}
