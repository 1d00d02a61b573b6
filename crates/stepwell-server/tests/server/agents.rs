//! `AgentService`.

use stepwell_proto::v1;
use stepwell_proto::v1::SessionStatus;
use tonic::Code;

use crate::world::{PLAIN, Turn, World};

fn put(definition: &str) -> v1::PutAgentRequest {
    v1::PutAgentRequest { definition: definition.into() }
}

#[tokio::test]
async fn an_agent_gets_versions_and_sessions_use_the_one_they_name() {
    let world = World::new(&[Turn::Say(&["Done."]), Turn::Say(&["Done."])]).await;
    let mut client = world.agents().await;
    let first = client.put_agent(put(PLAIN)).await.unwrap().into_inner().agent.unwrap();
    assert_eq!((first.name.as_str(), first.version), ("plain", 1));
    let same = client.put_agent(put(PLAIN)).await.unwrap().into_inner().agent.unwrap();
    assert_eq!(same, first);
    let changed = PLAIN.replace("Answer.", "Answer well.");
    let second = client.put_agent(put(&changed)).await.unwrap().into_inner().agent.unwrap();
    assert_eq!(second.version, 2);
    let list = client.list_agents(v1::ListAgentsRequest {}).await.unwrap().into_inner().agents;
    assert_eq!(list, [second]);
    for (asked, used) in [(0, 2), (1, 1)] {
        let request = v1::CreateSessionRequest {
            task: "x".into(),
            agent: "plain".into(),
            agent_version: asked,
            ..v1::CreateSessionRequest::default()
        };
        let created = world.sessions().await.create_session(request).await.unwrap().into_inner();
        let session = created.session.unwrap();
        assert_eq!((session.agent.as_str(), session.agent_version), ("plain", used));
        world.until_status(&session.session_id, SessionStatus::Completed).await;
    }
    let get = v1::GetAgentRequest { name: "plain".into(), version: 7 };
    let error = client.get_agent(get).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert!(error.message().contains("has no version 7, its latest is 2"), "{error}");
    let get = v1::GetAgentRequest { name: "plein".into(), version: 0 };
    let error = client.get_agent(get).await.unwrap_err();
    assert!(error.message().contains("did you mean `plain`? There is `plain`."), "{error}");
    world.stop().await;
}

#[tokio::test]
async fn a_definition_that_cannot_be_used_is_not_stored() {
    let world = World::new(&[]).await;
    let mut client = world.agents().await;
    let error = client.put_agent(put("name = \"x\"\ninstructions = 3")).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("definition: line 2, column 16"), "{error}");
    let list = client.list_agents(v1::ListAgentsRequest {}).await.unwrap().into_inner().agents;
    assert!(list.is_empty());
    world.stop().await;
}

#[tokio::test]
async fn tools_are_listed_with_who_offers_them() {
    let world = World::new(&[]).await;
    world.register_ship().await;
    let mut client = world.agents().await;
    let tools = client.list_tools(v1::ListToolsRequest {}).await.unwrap().into_inner().tools;
    let rows: Vec<_> =
        tools.iter().map(|it| (it.name.as_str(), it.effect.as_str(), it.workers.len())).collect();
    assert_eq!(rows, [("ask_user", "read", 1), ("ship", "write", 0), ("sleep", "read", 1)]);
    let workers = client.list_workers(v1::ListWorkersRequest {}).await.unwrap().into_inner();
    assert!(workers.workers.is_empty());
    world.stop().await;
}
