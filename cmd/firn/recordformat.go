// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordFormat writes records as consume and tier cat print them.
type recordFormat struct {
	json   bool
	pieces []func(b []byte, r *kgo.Record) []byte
}

// formatFlags are the flags of commands that print records.
type formatFlags struct {
	format string
	json   bool
}

// formatHelp lists what may stand in a format, for help texts.
const formatHelp = `The format has kcat's escapes:

  %t topic         %k key                     %T timestamp, ms since 1970
  %p partition     %K bytes of the key        %h headers, as name=value,...
  %o offset        %s value                   %% a percent sign
                   %S bytes of the value      \n \r \t \\ \x0A

The bytes of a null key or value are -1. JSON is one object a line; a key or value that is not UTF-8 is
in key_base64 or payload_base64 instead.`

func (f *formatFlags) parse() (*recordFormat, error) {
	if f.json {
		return &recordFormat{json: true}, nil
	}
	pieces, err := parseFormat(f.format)
	if err != nil {
		return nil, exitf(exitUsage, "-f %s: %w", f.format, err)
	}
	return &recordFormat{pieces: pieces}, nil
}

// parseFormat takes a format apart.
func parseFormat(format string) ([]func([]byte, *kgo.Record) []byte, error) {
	var pieces []func([]byte, *kgo.Record) []byte
	var text []byte
	flush := func() {
		if len(text) > 0 {
			literal := text
			text = nil
			pieces = append(pieces, func(b []byte, _ *kgo.Record) []byte { return append(b, literal...) })
		}
	}
	for i := 0; i < len(format); i++ {
		switch c := format[i]; {
		case c != '%' && c != '\\':
			text = append(text, c)
			continue
		case i+1 == len(format):
			return nil, fmt.Errorf("it ends in %q", c)
		case c == '\\':
			b, used, err := unescape(format[i+1:])
			if err != nil {
				return nil, err
			}
			text = append(text, b)
			i += used
			continue
		case format[i+1] == '%':
			text = append(text, '%')
			i++
			continue
		}
		i++
		field := recordFields[format[i]]
		if field == nil {
			return nil, fmt.Errorf("%%%c is not known, see --help", format[i])
		}
		flush()
		pieces = append(pieces, field)
	}
	flush()
	return pieces, nil
}

// unescape reads what follows a backslash and says how many characters that
// were.
func unescape(s string) (b byte, used int, err error) {
	switch s[0] {
	case 'n':
		return '\n', 1, nil
	case 'r':
		return '\r', 1, nil
	case 't':
		return '\t', 1, nil
	case '\\':
		return '\\', 1, nil
	case 'x':
		if len(s) >= 3 {
			if v, err := hex.DecodeString(s[1:3]); err == nil {
				return v[0], 3, nil
			}
		}
		return 0, 0, fmt.Errorf(`\x wants two hexadecimal digits`)
	}
	return 0, 0, fmt.Errorf(`\%c is not known, see --help`, s[0])
}

// recordFields are the escapes of a format.
var recordFields = map[byte]func([]byte, *kgo.Record) []byte{
	't': func(b []byte, r *kgo.Record) []byte { return append(b, r.Topic...) },
	'p': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, int64(r.Partition), 10) },
	'o': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, r.Offset, 10) },
	'k': func(b []byte, r *kgo.Record) []byte { return append(b, r.Key...) },
	'K': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, sizeOf(r.Key), 10) },
	's': func(b []byte, r *kgo.Record) []byte { return append(b, r.Value...) },
	'S': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, sizeOf(r.Value), 10) },
	'T': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, r.Timestamp.UnixMilli(), 10) },
	'h': func(b []byte, r *kgo.Record) []byte {
		for i, h := range r.Headers {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, h.Key...), '=')
			if h.Value == nil {
				b = append(b, "NULL"...)
			} else {
				b = append(b, h.Value...)
			}
		}
		return b
	},
}

// sizeOf is the size of a key or value, -1 when it is null.
func sizeOf(b []byte) int64 {
	if b == nil {
		return -1
	}
	return int64(len(b))
}

// recordJSON is a record in JSON, by kcat's names where kcat has them.
type recordJSON struct {
	Topic         string       `json:"topic"`
	Partition     int32        `json:"partition"`
	Offset        int64        `json:"offset"`
	TSType        string       `json:"tstype"`
	TS            int64        `json:"ts"`
	Tier          string       `json:"tier,omitempty"`
	Headers       []headerJSON `json:"headers,omitempty"`
	Key           *string      `json:"key"`
	KeyBase64     string       `json:"key_base64,omitempty"`
	Payload       *string      `json:"payload"`
	PayloadBase64 string       `json:"payload_base64,omitempty"`
}

type headerJSON struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 string  `json:"value_base64,omitempty"`
}

// textOf gives bytes as a string where they are UTF-8, in base64 where not, and
// neither when they are null.
func textOf(b []byte) (text *string, encoded string) {
	switch {
	case b == nil:
		return nil, ""
	case utf8.Valid(b):
		s := string(b)
		return &s, ""
	}
	return nil, base64.StdEncoding.EncodeToString(b)
}

// append adds one record in the format. tier is empty when it is not known.
func (f *recordFormat) append(b []byte, r *kgo.Record, tier string) ([]byte, error) {
	if !f.json {
		for _, piece := range f.pieces {
			b = piece(b, r)
		}
		return b, nil
	}
	out := recordJSON{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, TS: r.Timestamp.UnixMilli(), Tier: tier,
		TSType: "create",
	}
	if r.Attrs.TimestampType() == 1 {
		out.TSType = "logappend"
	}
	out.Key, out.KeyBase64 = textOf(r.Key)
	out.Payload, out.PayloadBase64 = textOf(r.Value)
	for _, h := range r.Headers {
		one := headerJSON{Name: h.Key}
		one.Value, one.ValueBase64 = textOf(h.Value)
		out.Headers = append(out.Headers, one)
	}
	line, err := json.Marshal(out)
	if err != nil {
		return b, fmt.Errorf("encode the record at offset %d: %w", r.Offset, err)
	}
	return append(append(b, line...), '\n'), nil
}
