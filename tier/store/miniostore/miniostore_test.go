// SPDX-License-Identifier: Apache-2.0

package miniostore_test

import (
	"testing"

	"firn/tier/store/miniostore"
	"firn/tier/store/storetest/drivertest"
)

func TestDriver(t *testing.T) { drivertest.Run(t, miniostore.New) }
