// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"
	"time"
)

func TestUnprotected(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		n.put(batch(4, 0), AcksLeader)
		n.seal()
		n.uploaded()
		if u := n.Unprotected(); u != (Unprotected{}) {
			t.Errorf("everything is in the bucket: %+v", u)
		}
		first := time.Now()
		n.put(batch(2, time.Hour), AcksLeader) // the append counts, not the record's time
		n.settle(time.Minute)
		n.put(batch(2, 0), AcksLeader)
		u := n.Unprotected()
		if u.Segments != 1 || u.Bytes != n.Log().Segments()[len(n.Log().Segments())-1].Size() || !u.Oldest.Equal(first) {
			t.Errorf("%+v, want one segment since %v", u, first)
		}
		if age := u.Age(first.Add(time.Minute)); age != time.Minute {
			t.Errorf("age %v", age)
		}
		other := Unprotected{Segments: 2, Bytes: 5, Oldest: first.Add(-time.Second)}
		if sum := u.Add(other); sum.Segments != 3 || sum.Bytes != u.Bytes+5 || !sum.Oldest.Equal(other.Oldest) {
			t.Errorf("sum %+v", sum)
		}
		if sum := (Unprotected{}).Add(u); sum != u || sum.Add(Unprotected{}) != u {
			t.Errorf("sum with nothing %+v", sum)
		}
		n.seal()
		n.uploaded()
		if u := n.Unprotected(); u.Segments != 0 || u.Age(time.Now()) != 0 {
			t.Errorf("uploaded again: %+v", u)
		}
	})
}
