// SPDX-License-Identifier: Apache-2.0

package inspect

import "firn/record"

// parseMarker reads the record of a control batch.
func parseMarker(r record.Record) (Marker, error) {
	m, err := record.ParseMarker(r)
	if err != nil {
		return Marker{}, err
	}
	if m.Abort {
		return Marker{Type: "abort", CoordinatorEpoch: m.CoordinatorEpoch}, nil
	}
	return Marker{Type: "commit", CoordinatorEpoch: m.CoordinatorEpoch}, nil
}
