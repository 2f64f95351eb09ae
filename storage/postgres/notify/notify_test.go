package notify

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// A function that the engine lacks is unsupported. A function that the role may not call is not: reads
// would otherwise show heads that are not durable.
func TestIsUnsupported(t *testing.T) {
	for code, want := range map[string]bool{"42883": true, "42P01": true, "0A000": true, "42601": true, "42501": false, "42P18": false, "57014": false, "": false} {
		require.Equal(t, want, IsUnsupported(fmt.Errorf("reading: %w", &pgconn.PgError{Code: code})), code)
	}
	require.False(t, IsUnsupported(nil))
	require.False(t, IsUnsupported(errors.New("42883")))
}
