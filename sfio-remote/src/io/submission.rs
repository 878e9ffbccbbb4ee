//! Operations that run while their caller does something else.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

use super::client::FileError;
use crate::client::OperationError;

/// An operation that was begun: a future of its result, which may also be asked whether it is done.
///
/// Dropping it cancels the operation.
///
/// ```no_run
/// # async fn run(file: &sfio_remote::io::StripedFile) -> Result<(), Box<dyn std::error::Error>> {
/// use sfio_remote::io::Submission;
/// use sfio_remote::request::WriteList;
///
/// let mut writes: Vec<_> = (0..9_u64)
///     .map(|i| Ok(file.submit_write(WriteList::new([(i * 100, "Hello".into())])?)))
///     .collect::<Result<_, sfio_remote::request::ListError>>()?;
/// for (index, result) in Submission::test_some(&mut writes).await {
///     println!("write {index} is done: {result:?}");
/// }
/// for write in writes.into_iter().filter(|write| !write.is_taken()) {
///     write.wait().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Submission<T> {
    /// None once the result was taken.
    task: Option<JoinHandle<Result<T, FileError>>>,
}

impl<T: Send + 'static> Submission<T> {
    pub(super) fn begin(
        operation: impl Future<Output = Result<T, FileError>> + Send + 'static,
    ) -> Submission<T> {
        Submission { task: Some(tokio::spawn(operation)) }
    }

    /// The result, if the operation is done; it is given once.
    pub async fn test(&mut self) -> Option<Result<T, FileError>> {
        match &self.task {
            Some(task) if task.is_finished() => Some(self.take().await),
            _ => None,
        }
    }

    /// The results of those that are done, each with its position.
    pub async fn test_some(submissions: &mut [Submission<T>]) -> Vec<(usize, Result<T, FileError>)> {
        let mut done = Vec::new();
        for (index, submission) in submissions.iter_mut().enumerate() {
            if let Some(result) = submission.test().await {
                done.push((index, result));
            }
        }
        done
    }

    /// Waits until the operation is done.
    ///
    /// # Errors
    /// What the operation fails with; [`OperationError::Cancelled`] if its result was taken before.
    pub async fn wait(mut self) -> Result<T, FileError> {
        self.take().await
    }

    /// Gives the operation up: its transfers are reset, and the I/O nodes forget them. What reached them stays.
    ///
    /// # Errors
    /// [`OperationError::Cancelled`], or what it had failed with; the result if it was faster.
    pub async fn cancel(mut self) -> Result<T, FileError> {
        if let Some(task) = &self.task {
            task.abort();
        }
        self.take().await
    }

    /// Whether [`test`](Self::test) has given the result.
    pub fn is_taken(&self) -> bool {
        self.task.is_none()
    }

    async fn take(&mut self) -> Result<T, FileError> {
        match self.task.take() {
            Some(task) => ended(task.await),
            None => Err(OperationError::Cancelled.into()),
        }
    }
}

impl<T: Send + 'static> Future for Submission<T> {
    type Output = Result<T, FileError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(task) = &mut self.task else { return Poll::Ready(Err(OperationError::Cancelled.into())) };
        let result = std::task::ready!(Pin::new(task).poll(context));
        self.task = None;
        Poll::Ready(ended(result))
    }
}

impl<T> Drop for Submission<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn ended<T>(result: Result<Result<T, FileError>, tokio::task::JoinError>) -> Result<T, FileError> {
    match result {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(OperationError::Cancelled.into()),
    }
}
