// Package client is the Go client of a Colophon server.
//
//	c, err := client.New("https://ledger.example", client.WithToken(token), client.WithVerifierKeys("default", key))
//	receipt, err := c.Ledger("default").Records.Post(ctx, &wire.IPCRecord{
//		Payload: payload, Output: new(text), Model: "m1", Temperature: new(0.7),
//	}, nil)
//
// A [Client] talks to one server and a [Ledger] to one ledger of it. Their calls are grouped into services, one
// call for each operation of the HTTP API. Requests and answers are types of package wire. Clients,
// ledgers and services are safe for concurrent use.
//
// # Writes
//
// When a write returns a receipt, the event is durable on the server: it survives a crash and a loss of power.
//
// Each write has an idempotency key, so that the client can repeat it after a failure without recording it
// twice. The key is the one that the caller gives, else a record's run_id, else a random one, which stays
// the same over the attempts of one call. [WithoutIdempotencyKeys] turns random keys off; writes without a
// key are then not repeated. After [ErrUnreachable] it is not known whether the event was recorded. To find
// out, make the same call with the same key or run_id: it returns the first receipt.
//
// A record whose claimed hashes do not match its content is recorded and flagged, unless OnMismatch or the
// ledger says otherwise. Look at Checks.Mismatches of the receipt.
//
// # Retries
//
// Reads, and writes that have a key or a run_id, are repeated after a failed connection and after the statuses
// 408, 429, 502, 503 and 504. [Retries] sets how often. The first pause is 250 ms and each further one twice
// as long, spread by chance. A Retry-After of the server, in seconds or as a date, is respected. Calls that
// are not repeated say so. The context bounds the whole call; [WithTimeout] bounds each attempt.
//
// # Many records
//
// [RecordsService.Batch] takes a sequence of records and returns a sequence of results. It streams both ways,
// bounds its memory, and continues after a failed connection. Lines that are JSON already go out as they are, as
// Text of a [Line].
//
// # Lists and streams
//
// A [List] reads one page, or ranges over the rows of all pages. All pages are of one tree size, so the list is
// consistent while others write. To see your own writes, set After to the seq of the receipt.
//
// [EventsService.All] ranges over the log up to its head. [EventsService.Follow] continues as events are
// recorded, and connects again where it was after a failed connection.
//
// # Receipts
//
// With [WithVerifierKeys], each write verifies its receipt before it returns: that a trusted key has signed the
// checkpoint, that the event is in the checkpoint's tree, that all members of the receipt are those of the
// event, and that the event is of the kind and the idempotency key that were sent. If something is wrong,
// the write returns the receipt and a [ReceiptError]. The verifier key must come by a way that does not lead
// through the server. Only the keys that are given count. After a rotation of keys has ended, give the new
// one: docs/keys.md and [LogService.Keys] say how it follows from the old one.
//
// A receipt proves that the event is in the log. It does not prove that the server shows everyone the same
// log: auditors and witnesses do. colophon verify --record
// checks that the event follows from the record.
//
// # Errors
//
// An answer without a success status is an *[Error] with status, detail and places. The kinds, such as [ErrNotFound] and
// [ErrConflict], are for [errors.Is]. [ErrUnreachable] and [ErrAnswer] say that there was no answer, or one
// that the API does not allow. Answers are bounded by [WithMaxAnswer]. Redirects are not followed, so the token
// goes to the server only.
package client
