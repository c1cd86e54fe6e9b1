// SPDX-License-Identifier: Apache-2.0

package s3store_test

import (
	"testing"

	"firn/tier/store/s3store"
	"firn/tier/store/storetest/drivertest"
)

func TestDriver(t *testing.T) { drivertest.Run(t, s3store.New) }
