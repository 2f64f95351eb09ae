// Package indextest tests the index of a ledger: whole logs are folded, and what is asked
// of the index is compared with models that go through all events.
package indextest
