// SPDX-License-Identifier: Apache-2.0

// Package tier is the cold tier: it moves closed segments into an object
// store, remembers in a manifest where every offset lies, and reads history
// back.
package tier
