// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	if s.Tiering == nil {
		s.Tiering = []TopicTiering{}
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
		var err error
		if partition, err = number("partition", p, 32); err != nil {
			writeJSON(w, http.StatusBadRequest, Error{err.Error()})
			return
		}
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

func (a api) explain(w http.ResponseWriter, r *http.Request) {
	question, err := parseQuestion(r.URL.Query())
	if err != nil {
		writeJSON(w, http.StatusBadRequest, Error{err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), sourceTimeout)
	defer cancel()
	explanation, err := a.source.Explain(ctx, question)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, explanation)
}

// parseQuestion reads topic, partition and either offset or time.
func parseQuestion(values url.Values) (Question, error) {
	q := Question{Topic: values.Get("topic"), Offset: -1}
	if q.Topic == "" {
		return q, errors.New("topic is missing")
	}
	partition, err := number("partition", values.Get("partition"), 32)
	if err != nil {
		return q, err
	}
	q.Partition = int32(partition)
	offset, time := values.Get("offset"), values.Get("time")
	switch {
	case (offset == "") == (time == ""):
		return q, errors.New("want either offset or time")
	case offset != "":
		q.Offset, err = number("offset", offset, 64)
	default:
		q.TimeMs, err = number("time", time, 64)
	}
	return q, err
}

// number reads a number that is not negative and fits bits.
func number(name, text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s %q: want a number from 0 up", name, text)
	}
	return n, nil
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
