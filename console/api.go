// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// allPartitions asks a Source for every partition of a topic.
const allPartitions = -1

// api answers what comes from the Source.
type api struct{ source Source }

func (a api) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.source.Ready(); err != nil {
		writeText(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeText(w, http.StatusOK, "ready")
}

func (a api) status(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), sourceTimeout)
	defer cancel()
	s, err := a.source.Status(ctx)
	if err != nil {
		writeError(w, err)
		return
	}
	if s.Listeners == nil {
		s.Listeners = []string{}
	}
	if s.Attention == nil {
		s.Attention = []PartitionStatus{}
	}
	writeJSON(w, http.StatusOK, s)
}

func (a api) segments(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	topic := q.Get("topic")
	if topic == "" {
		writeJSON(w, http.StatusBadRequest, Error{"topic is missing"})
		return
	}
	partition := int64(allPartitions)
	if p := q.Get("partition"); p != "" {
		n, err := strconv.ParseInt(p, 10, 32)
		if err != nil || n < 0 {
			writeJSON(w, http.StatusBadRequest, Error{fmt.Sprintf("partition %q: want a number from 0 up", p)})
			return
		}
		partition = n
	}
	ctx, cancel := context.WithTimeout(r.Context(), sourceTimeout)
	defer cancel()
	segments, err := a.source.Segments(ctx, topic, int32(partition))
	if err != nil {
		writeError(w, err)
		return
	}
	if segments == nil {
		segments = []Segment{}
	}
	writeJSON(w, http.StatusOK, segments)
}

func writeError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, Error{err.Error()})
}

// writeJSON encodes the whole answer before the first byte leaves.
func writeJSON(w http.ResponseWriter, code int, v any) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		writeText(w, http.StatusInternalServerError, "encode the answer: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// A failed write means that the client has left.
	_, _ = w.Write(b.Bytes())
}

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n"))
}
