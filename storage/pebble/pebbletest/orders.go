package pebbletest

import (
	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
)

// prefixBundle is how many prefixes of keys stand together in a block, in the
// schema that Pebble chooses by itself.
const prefixBundle = 16

// readerOptions read tables whatever the order of their keys is called: it does not
// matter to who reads them all.
func readerOptions(orders []string) sstable.ReaderOptions {
	var schemas []*colblk.KeySchema
	comparers := make(sstable.Comparers)
	for _, name := range append([]string{engine.DefaultComparer.Name}, orders...) {
		c := *engine.DefaultComparer
		c.Name = name
		comparers[name] = &c
		schema := colblk.DefaultKeySchema(&c, prefixBundle)
		schemas = append(schemas, &schema)
	}
	return sstable.ReaderOptions{Comparers: comparers, KeySchemas: sstable.MakeKeySchemas(schemas...)}
}
