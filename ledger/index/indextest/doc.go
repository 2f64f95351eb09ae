// Package indextest tests the index of a ledger. It folds whole logs and compares the answers with
// those of models that go through all events.
package indextest
