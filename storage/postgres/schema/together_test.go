package schema_test

import (
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/storage/postgres/postgrestest"
	"colophon/storage/postgres/schema"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// Many servers can start at the same time and create the same tables, even if they collide at every
// statement.
func TestServersCreateTablesTogether(t *testing.T) {
	database := postgrestest.SharedServer(t)
	pool, err := pgxpool.New(t.Context(), database.URL("search_path", database.CreateSchema(t), "pool_max_conns", "24"))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	var servers sync.WaitGroup
	for range 24 {
		servers.Go(func() { assert.NoError(t, schema.Migrate(t.Context(), pool)) })
	}
	servers.Wait()
	require.NoError(t, schema.CheckComplete(t.Context(), pool))
}
