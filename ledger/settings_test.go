package ledger_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
)

func TestVisibilityIsKept(t *testing.T) {
	database, keys := memory.New(), keystore.KeyFiles{Dir: t.TempDir()}
	h := host(t, database, keys)
	l, err := h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	require.Equal(t, ledger.LogVisibilityPrivate, l.Settings().LogVisibility)
	size := l.Head().Size
	for _, public := range []bool{true, true, false, true} {
		require.NoError(t, l.SetLogPublic(t.Context(), public))
		require.Equal(t, public, h.HasPublicLog("a"))
		require.NoError(t, h.Close())
		h = host(t, database, keys)
		l, err = h.Ledger("a")
		require.NoError(t, err)
		require.Equal(t, public, l.HasPublicLog())
	}
	require.Equal(t, ledger.LogVisibilityPublic, l.Settings().LogVisibility)
	require.False(t, h.HasPublicLog("b"))
	require.Equal(t, size, l.Head().Size, "the change is not an event")

	require.NoError(t, l.Freeze(t.Context()))
	require.NoError(t, l.SetLogPublic(t.Context(), false))
	require.False(t, l.HasPublicLog())
}

// failingSettingsStore is a store that fails to store the settings that an operator can change.
type failingSettingsStore struct{ storage.Store }

var errSetting = errors.New("the setting cannot be stored")

func (f failingSettingsStore) SetSetting(ctx context.Context, name string, value []byte) error {
	if name == "log" || name == "unregistered_sources" || name == "otlp_content" {
		return errSetting
	}
	return f.Store.SetSetting(ctx, name, value)
}

// If the setting cannot be stored, SetLogPublic(true) does not make the log public, but SetLogPublic(false)
// makes it private.
func TestVisibilityThatCannotBeStored(t *testing.T) {
	s := store(t, memory.New())
	l := open(t, failingSettingsStore{s}, config(t))
	require.ErrorIs(t, l.SetLogPublic(t.Context(), true), errSetting)
	require.False(t, l.HasPublicLog())
	require.NoError(t, l.Close())

	require.NoError(t, s.SetSetting(t.Context(), "log", []byte(ledger.LogVisibilityPublic)))
	l = open(t, failingSettingsStore{s}, config(t))
	require.True(t, l.HasPublicLog())
	require.ErrorIs(t, l.SetLogPublic(t.Context(), false), errSetting)
	require.False(t, l.HasPublicLog())
}

func TestUnknownSettings(t *testing.T) {
	for _, name := range []string{"log", "unregistered_sources", "otlp_content"} {
		s := store(t, memory.New())
		require.NoError(t, s.SetSetting(t.Context(), name, []byte("open")))
		_, err := ledger.Open(t.Context(), s, config(t))
		require.ErrorIs(t, err, ledger.ErrDamaged)
	}
}

// A ledger accepts unregistered sources until SetRejectUnregisteredSources changes that. The setting
// survives a restart.
func TestUnregisteredSourcesAreKept(t *testing.T) {
	s := store(t, memory.New())
	l := open(t, s, config(t))
	size := l.Head().Size
	require.Equal(t, ledger.UnregisteredSourcesAccept, l.Settings().UnregisteredSources)
	for _, reject := range []bool{true, true, false, true} {
		require.NoError(t, l.SetRejectUnregisteredSources(t.Context(), reject))
		require.Equal(t, reject, l.RejectsUnregisteredSources())
		require.NoError(t, l.Close())
		l = open(t, s, config(t))
		require.Equal(t, reject, l.RejectsUnregisteredSources())
	}
	require.Equal(t, ledger.UnregisteredSourcesReject, l.Settings().UnregisteredSources)
	require.False(t, l.HasPublicLog(), "the other setting is unchanged")
	require.Equal(t, size, l.Head().Size, "the change is not an event")
	require.NoError(t, l.Close())

	l = open(t, failingSettingsStore{s}, config(t))
	require.ErrorIs(t, l.SetRejectUnregisteredSources(t.Context(), false), errSetting)
	require.True(t, l.RejectsUnregisteredSources())
}

// A ledger keeps content that arrives as telemetry until SetTelemetryHashesOnly changes that. The
// setting survives a restart. Restricting telemetry to hashes takes effect even if the setting
// cannot be stored.
func TestTelemetryContentIsKept(t *testing.T) {
	s := store(t, memory.New())
	l := open(t, s, config(t))
	size := l.Head().Size
	require.Equal(t, ledger.TelemetryContentKeep, l.Settings().TelemetryContent)
	for _, hashes := range []bool{true, true, false, true} {
		require.NoError(t, l.SetTelemetryHashesOnly(t.Context(), hashes))
		require.Equal(t, hashes, l.Settings().TelemetryContent == ledger.TelemetryContentHashes)
		require.NoError(t, l.Close())
		l = open(t, s, config(t))
		require.Equal(t, hashes, l.Settings().TelemetryContent == ledger.TelemetryContentHashes)
	}
	require.Equal(t, ledger.TelemetryContentHashes, l.Settings().TelemetryContent)
	require.Equal(t, size, l.Head().Size, "the change is not an event")
	require.NoError(t, l.Close())

	l = open(t, failingSettingsStore{s}, config(t))
	require.ErrorIs(t, l.SetTelemetryHashesOnly(t.Context(), false), errSetting)
	require.Equal(t, ledger.TelemetryContentHashes, l.Settings().TelemetryContent)
	require.NoError(t, l.Close())
	require.NoError(t, s.SetSetting(t.Context(), "otlp_content", []byte(ledger.TelemetryContentKeep)))
	l = open(t, failingSettingsStore{s}, config(t))
	require.ErrorIs(t, l.SetTelemetryHashesOnly(t.Context(), true), errSetting)
	require.Equal(t, ledger.TelemetryContentHashes, l.Settings().TelemetryContent)
}

// The first event names the actor that created the ledger.
func TestCreatorOfALedger(t *testing.T) {
	h := host(t, memory.New(), keystore.KeyFiles{Dir: t.TempDir()})
	for actor, want := range map[string]string{"alice": "alice", "": ledger.AnonymousActor} {
		l, err := h.Create(t.Context(), ledger.CreateOptions{Name: "of-" + want, Actor: actor})
		require.NoError(t, err)
		entry, err := l.Reader().Entry(t.Context(), 0)
		require.NoError(t, err)
		var event struct {
			Actor string `json:"actor"`
		}
		require.NoError(t, unmarshal(entry[proofs.HashSize:], &event))
		require.Equal(t, want, event.Actor)
	}
}
