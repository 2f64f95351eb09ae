// Package client is the Go client of a Colophon server.
//
//	c, err := client.New("https://ledger.example", client.WithToken(token), client.WithVerifierKeys("default", key))
//	receipt, err := c.Ledger("default").Records.Post(ctx, &wire.IPCRecord{
//		Payload: payload, Output: new(text), Model: "m1", Temperature: new(0.7),
//	}, nil)
//
// A [Client] calls one server, and a [Ledger] stands for one ledger on it. The methods are grouped into services,
// with one method for each operation of the HTTP API. Request and response bodies are types of package wire. Clients,
// ledgers and services are safe for concurrent use.
//
// # Writes
//
// When a write returns a receipt, the event is durable on the server: it survives a crash and a power failure.
//
// The client gives each write an idempotency key, so that it can repeat the write after a failure without recording
// it twice. It uses the caller's key, else the record's run_id, else a random key, which stays the same for all
// attempts of one call. [WithoutIdempotencyKeys] turns random keys off; writes without a key are then not repeated.
// After [ErrUnreachable], the client does not know whether the event was recorded. To find out, make the same call
// with the same key or run_id: it returns the first receipt.
//
// A record whose claimed hashes do not match its content is recorded and flagged, unless OnMismatch
// or the ledger's setting is reject. Check the receipt with Checks.HasMismatch.
//
// # Retries
//
// Reads, and writes that have a key or a run_id, are repeated after a failed connection or a
// response with status 408, 429, 502, 503, or 504. [WithRetryPolicy] sets how often. The first
// pause is 250 ms, and each further pause is twice as long, with random jitter. The client honors
// the server's Retry-After header, whether it contains seconds or a date. If a call is never
// repeated, its documentation says so. The context limits the whole call; [WithTimeout] limits each
// attempt.
//
// # Many records
//
// [RecordsService.PostBatch] takes a sequence of records and returns a sequence of results. It
// streams in both directions, needs bounded memory, and continues after a failed connection. To
// send a line that is already encoded as JSON without changing it, set RawJSON in its [BatchLine].
//
// # Lists and streams
//
// A [PagedList] reads one page, or iterates over the rows of all pages. All pages refer to the same
// tree size, so the list stays consistent while others write. To see your own writes, set AfterSeq
// to the seq of the receipt.
//
// [EventsService.All] iterates over the log up to its head. [EventsService.Follow] continues as events are recorded.
// After a failed connection, it reconnects and continues with the next event.
//
// # Receipts
//
// With [WithVerifierKeys], each write verifies its receipt before it returns: that a trusted key has signed the
// checkpoint, that the event is in the checkpoint's tree, that all members of the receipt agree with the event, and
// that the event has the kind and the idempotency key that were sent. If something is wrong, the write returns both
// the receipt and a [ReceiptError]. Get the verifier key from a source other than the server. The client trusts only
// the keys that it was given. After a key rotation has ended, give it the new key: docs/keys.md and [LogService.Keys]
// explain how to check that the new key follows from the old one.
//
// A receipt proves that the event is in the log. It does not prove that the server shows the same log to everyone;
// auditors and witnesses check this. colophon verify --record checks that the event follows from the record.
//
// # Errors
//
// A response with an error status becomes an *[Error] with the status, the detail, and the places in the request that
// are wrong. To distinguish errors, use [errors.Is] with values such as [ErrNotFound] and [ErrConflict].
// [ErrUnreachable] means that no complete response arrived, and [ErrUnexpectedResponse] means that the response does
// not conform to the API. [WithMaxResponseBytes] limits the length of responses. The client does not follow
// redirects, so the token goes only to the server.
package client
