//! Large contents of jobs: they go into the fleet's store, because a job's message is limited in size.

use std::fmt::Debug;

use bytes::Bytes;
use futures::future::BoxFuture;
use thermae_schemas::{ArtifactId, InputValue, Job, TenantName};

use crate::Error;

/// Size from which contents go into the store, in bytes.
const LARGE: usize = 64 << 10;

/// The fleet's store, if this process has a hand in it.
pub trait Store: Debug + Send + Sync {
    /// Keeps a content. Returns the `ref` with which jobs of the tenant name it, or why it can't be kept.
    fn keep<'a>(&'a self, tenant: &'a TenantName, content: Bytes) -> BoxFuture<'a, Result<ArtifactId, String>>;
}

/// Puts the large files and inputs of a job into the store. The job then names them.
pub(crate) async fn put(store: &dyn Store, tenant: &TenantName, job: &mut Job) -> Result<(), Error> {
    let keep = async |content| store.keep(tenant, content).await.map_err(Error::Store);
    for file in &mut job.files {
        let size =
            file.text.as_ref().map_or(0, String::len).max(file.base64.as_ref().map_or(0, |content| content.len()));
        // A file that has both is refused by the scheduler.
        if size >= LARGE && file.has_one_content() {
            let content = file.text.take().map(Bytes::from).or_else(|| file.base64.take().map(Bytes::from));
            file.reference = Some(keep(content.unwrap_or_default()).await?);
        }
    }
    for input in job.inputs.values_mut() {
        if let InputValue::Value(value) = input
            && value.raw().get().len() >= LARGE
        {
            *input = InputValue::Ref(keep(Bytes::copy_from_slice(value.raw().get().as_bytes())).await?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt;
    use thermae_schemas::{InputFile, JsonText};

    use super::*;

    #[derive(Debug, Default)]
    struct Kept(Mutex<Vec<Bytes>>);

    impl Store for Kept {
        fn keep<'a>(&'a self, _: &'a TenantName, content: Bytes) -> BoxFuture<'a, Result<ArtifactId, String>> {
            let mut kept = self.0.lock().unwrap();
            kept.push(content);
            let reference = ArtifactId::of([kept.len() as u8; 32]);
            async { Ok(reference) }.boxed()
        }
    }

    #[tokio::test]
    async fn only_large_contents_leave_the_job() {
        let (text, bytes) = ("é".repeat(LARGE / 2), vec![0xff; LARGE]);
        let value = |text: String| InputValue::Value(JsonText::new(text).unwrap());
        let many = format!("[{}1]", "1,".repeat(LARGE / 2));
        let binary = |path: &str, bytes: &[u8]| InputFile {
            text: None,
            base64: Some(bytes.to_vec().into()),
            ..InputFile::text(path, "")
        };
        let both = InputFile { text: Some(text.clone()), ..binary("both", &bytes) };
        let mut job = Job {
            files: vec![
                InputFile { executable: true, ..InputFile::text("text", &text) },
                InputFile::text("small", &text[2..]),
                binary("binary", &bytes),
                binary("few", &bytes[1..]),
                both.clone(),
            ],
            inputs: [("many".to_owned(), value(many.clone())), ("one".to_owned(), value("1".into()))].into(),
            ..Job::python("")
        };
        let (was, kept) = (job.clone(), Kept::default());
        put(&kept, &TenantName::new("acme").unwrap(), &mut job).await.unwrap();
        let named = |n: u8, file: &InputFile| InputFile {
            text: None,
            base64: None,
            reference: Some(ArtifactId::of([n; 32])),
            ..file.clone()
        };
        assert_eq!(job.files[0], named(1, &was.files[0]));
        assert_eq!(job.files[2], named(2, &was.files[2]));
        assert_eq!((&job.files[1], &job.files[3..]), (&was.files[1], &was.files[3..]));
        assert_eq!(job.inputs["many"], InputValue::Ref(ArtifactId::of([3; 32])));
        assert_eq!(job.inputs["one"], was.inputs["one"]);
        assert_eq!(*kept.0.lock().unwrap(), [Bytes::from(text), Bytes::from(bytes), Bytes::from(many)]);
    }
}
