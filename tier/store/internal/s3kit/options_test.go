// SPDX-License-Identifier: Apache-2.0

package s3kit

import "testing"

func TestOptions(t *testing.T) {
	o := Options{Endpoint: "store:9000", AccessKey: "a", MultipartBytes: -1, PartBytes: 1, MaxUploads: -1}
	o.EnsureDefaults()
	err := o.Validate()
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 6 {
		t.Errorf("got %v, want six faults", err)
	}
	for endpoint, ok := range map[string]bool{
		"http://127.0.0.1:7070": true, "https://s3.example.com": true, "https://s3.example.com/": true,
		"ftp://x": false, "http://": false, "http://user:secret@x": false, "http://x/bucket": false, "http://x?y": false, "http://[::1": false,
	} {
		o := Options{Bucket: "b", Endpoint: endpoint}
		o.EnsureDefaults()
		if err := o.Validate(); (err == nil) != ok {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	env := map[string]string{"AWS_ENDPOINT_URL": "http://general", "AWS_ENDPOINT_URL_S3": "http://s3", "AWS_DEFAULT_REGION": "north"}
	var fromEnv Options
	fromEnv.FromEnv(func(name string) string { return env[name] })
	if fromEnv.Endpoint != "http://s3" || !fromEnv.PathStyle || fromEnv.Region != "north" {
		t.Errorf("from the environment: %+v", fromEnv)
	}
	given := Options{Endpoint: "http://given", Region: "south"}
	given.FromEnv(func(name string) string { return env[name] })
	if given.Endpoint != "http://given" || given.PathStyle || given.Region != "south" {
		t.Errorf("given: %+v", given)
	}
}
