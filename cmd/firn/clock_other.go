// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

// clockSynced says whether the kernel takes its clock for right: it does not
// tell here.
func clockSynced() bool { return true }
