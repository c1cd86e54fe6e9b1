// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// measured gathers the sums of the request histograms by phase, the number of
// tail deliveries and their sum.
func measured(t *testing.T, g prometheus.Gatherer) (phase map[string]float64, requests, tailCount, tailSum float64) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	phase = map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			switch f.GetName() {
			case "firn_request_seconds":
				if m.Label[0].GetValue() == "Metadata" {
					phase[m.Label[1].GetValue()] = m.Histogram.GetSampleSum()
				}
			case "firn_requests_total":
				requests += m.Counter.GetValue()
			case "firn_tail_delivery_seconds":
				tailCount, tailSum = float64(m.Histogram.GetSampleCount()), m.Histogram.GetSampleSum()
			}
		}
	}
	return phase, requests, tailCount, tailSum
}

// TestPhasesOfARequest handles a request for 3 s and lets its answer wait for
// 2 s; it was appended 7 s before it is sent.
func TestPhasesOfARequest(t *testing.T) {
	for _, bulk := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			s, _ := bubble(t, Options{Registerer: reg, Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
				appended := time.Now().Add(-2 * time.Second)
				pass(3 * time.Second)
				resp := r.Message.ResponseKind()
				return func(context.Context) (*Response, error) {
					pass(2 * time.Second)
					return &Response{Message: resp, Bulk: bulk, Appended: appended}, nil
				}, nil
			})})
			pipe(t, s).roundTrip(1)
			synctest.Wait()
			phase, requests, count, sum := measured(t, reg)
			if requests != 1 || phase["queue"] != 0 || phase["handle"] != 3 || phase["wait"] != 2 || phase["send"] != 0 {
				t.Errorf("%v requests, phases %v", requests, phase)
			}
			if want := map[bool]float64{false: 1, true: 0}[bulk]; count != want || sum != 7*want {
				t.Errorf("bulk %v: %v deliveries that took %v", bulk, count, sum)
			}
		})
	}
}
