//! Texts as vectors.

use async_trait::async_trait;
use stepwell_core::agent::ModelSpec;
use stepwell_core::event::Usage;
use tokio_util::sync::CancellationToken;

use crate::model::ModelFailure;

/// One request for vectors.
#[derive(Debug, Clone)]
pub struct EmbeddingRequest {
    /// Which model, where, how long. Its fallbacks mean nothing here: vectors of different models
    /// cannot be compared.
    pub model: ModelSpec,
    /// Numbers that each vector must have; `None` for as many as the model makes.
    pub dimensions: Option<usize>,
    /// The texts.
    pub texts: Vec<String>,
}

/// Vectors, one for each text, in the order of the texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embeddings {
    /// All of the same length, all finite.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens as the server counted them; zeros when it did not say.
    pub usage: Usage,
    /// Address that answered last.
    pub endpoint: String,
}

/// A model that makes vectors of texts.
#[async_trait]
pub trait EmbeddingPort: Send + Sync + 'static {
    /// Makes one attempt; never repeats by itself.
    ///
    /// Cancelling `cancel` closes the connection at once; the result is then ignored. Dropping the
    /// future does the same.
    ///
    /// # Errors
    /// [`ModelFailure`], always with the address and the cause.
    async fn embed(
        &self,
        request: &EmbeddingRequest,
        cancel: &CancellationToken,
    ) -> Result<Embeddings, ModelFailure>;
}
