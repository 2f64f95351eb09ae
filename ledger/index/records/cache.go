package records

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"time"

	"colophon/ledger/index"
	"colophon/ledger/record"
	"colophon/storage"
)

// texts returns pointers to the text fields that run queries need, in encoding order. Seq, Time,
// and HasPayload are not among them.
func (r *IPCRecord) texts() [15]*[]byte {
	return [...]*[]byte{&r.InputHash, &r.SeedlessInputHash, &r.SystemPromptHash, &r.OutputHash, &r.IPCID, &r.Model, &r.Temperature, &r.MaxTokens, &r.Seed,
		&r.OllamaBuildHash, &r.ModelDigest, &r.HostPlatform, &r.PayloadSchema, &r.RunID, (*[]byte)(&r.MemberDigests)}
}

// A text is encoded as its length plus plainText, followed by its bytes, unless one of the
// other constants applies.
const (
	noText     = iota // the text is nil
	digestText        // the text is a digest in hexadecimal; the bytes of the digest follow
	plainText
)

// appendEncoded appends the record fields needed by run queries, except seq. size is the length of
// the record's entry in bytes.
func (r *IPCRecord) appendEncoded(dst []byte, size int) []byte {
	dst = binary.AppendUvarint(dst, uint64(size))
	dst = binary.AppendVarint(dst, r.Time.Unix())
	dst = binary.AppendUvarint(dst, uint64(r.Time.Nanosecond()))
	dst = append(dst, 0)
	if r.HasPayload {
		dst[len(dst)-1] = 1
	}
	for _, text := range r.texts() {
		dst = appendText(dst, *text)
	}
	return dst
}

// appendEncoded appends the additional fields needed by lists. r holds the record's other fields.
func (listed *Record) appendEncoded(dst []byte, r *IPCRecord) []byte {
	dst = append(dst, listed.EventHash[:]...)
	var occurred, hashes []byte
	if listed.Timestamp != nil {
		occurred = []byte(*listed.Timestamp)
	}
	end := len(dst)
	if dst = r.appendUsualHashes(dst); !bytes.Equal(listed.Hashes, dst[end:]) {
		hashes = listed.Hashes
	}
	dst = appendText(dst[:end], occurred)
	dst = appendText(dst, hashes)
	dst = appendText(dst, listed.Labels)
	for _, name := range listed.Mismatches {
		dst = appendText(dst, []byte(name))
	}
	return dst
}

func appendText(dst, text []byte) []byte {
	switch {
	case text == nil:
		return append(dst, noText)
	case record.IsDigest(text):
		dst, _ = hex.AppendDecode(append(dst, digestText), text)
		return dst
	default:
		return append(binary.AppendUvarint(dst, uint64(len(text)+plainText)), text...)
	}
}

// usualHashesBytes is at least the length of what appendUsualHashes appends.
const usualHashesBytes = 460

// appendUsualHashes appends a JSON object with the input_hash, ipc_id, output_hash, and
// system_prompt_hash of the record and, if it has one, the seedless hash. Most records have no
// other hashes.
func (r *IPCRecord) appendUsualHashes(dst []byte) []byte {
	for i, hash := range []struct {
		name string
		text []byte
	}{{NameInputHash, r.InputHash}, {NameIPCID, r.IPCID}, {NameOutputHash, r.OutputHash},
		{seedlessHash, r.SeedlessInputHash}, {NameSystemPromptHash, r.SystemPromptHash}} {
		if hash.name == seedlessHash && hash.text == nil {
			continue
		}
		dst = append(dst, "{,"[min(i, 1)], '"')
		dst = append(append(dst, hash.name...), `":`...)
		if hash.text == nil {
			dst = append(dst, "null"...)
		} else {
			dst = append(append(append(dst, '"'), hash.text...), '"')
		}
	}
	return append(dst, '}')
}

// encodedRecord is the part of an encoded record that has not been decoded yet.
type encodedRecord []byte

func (k *encodedRecord) number() int {
	n, length := binary.Uvarint(*k)
	*k = (*k)[length:]
	return int(n)
}

// text decodes the next text and appends it to all, the buffer for all texts of the record. It
// returns the extended buffer as after.
func (k *encodedRecord) text(all []byte) (text, after []byte) {
	n, from := k.number(), len(all)
	switch n {
	case noText:
		return nil, all
	case digestText:
		n = storage.HashSize
		all = hex.AppendEncode(all, (*k)[:n])
	default:
		n -= plainText
		all = append(all, (*k)[:n]...)
	}
	*k = (*k)[n:]
	return all[from:len(all):len(all)], all
}

// decodeRecord decodes what IPCRecord.appendEncoded wrote. rest is what Record.appendEncoded wrote
// after it. r does not alias encoded.
func decodeRecord(seq uint64, encoded []byte) (r IPCRecord, size int, rest encodedRecord) {
	rest = encoded
	size = rest.number()
	seconds, length := binary.Varint(rest)
	rest = rest[length:]
	r.Seq, r.Time = seq, time.Unix(seconds, int64(rest.number())).UTC()
	r.HasPayload = rest.number() == 1
	all := make([]byte, 0, 2*len(rest)) // a digest has two hexadecimal digits per byte
	for _, text := range r.texts() {
		*text, all = rest.text(all)
	}
	return r, size, rest
}

// listed returns the record as it appears in a list, without State and Body. rest is what
// Record.appendEncoded wrote.
func (r *IPCRecord) listed(rest encodedRecord) Record {
	one := Record{Seq: r.Seq, Kind: record.KindIPCRecord, Time: r.Time, RunID: index.StringPointer(r.RunID), MissingParts: slices.Collect(r.IPC.MissingParts())}
	rest = rest[copy(one.EventHash[:], rest):]
	all := make([]byte, 0, 2*len(rest))
	var occurred []byte
	occurred, all = rest.text(all)
	one.Timestamp = index.StringPointer(occurred)
	if one.Hashes, all = rest.text(all); one.Hashes == nil {
		one.Hashes = r.appendUsualHashes(make([]byte, 0, usualHashesBytes))
	}
	one.Labels, all = rest.text(all)
	for len(rest) > 0 {
		var name []byte
		name, all = rest.text(all)
		one.Mismatches = append(one.Mismatches, string(name))
	}
	return one
}
