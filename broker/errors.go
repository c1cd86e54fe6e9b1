// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"firn/cluster"
	"firn/record"
)

// Kinds of error that only the broker knows. They are answered with the code
// beside them in the table below.
var (
	errUnknownTopic       = errors.New("unknown topic or partition")
	errUnknownTopicID     = errors.New("unknown topic id")
	errInvalidRequest     = errors.New("invalid request")
	errInvalidAcks        = errors.New("invalid acks")
	errInvalidConfig      = errors.New("invalid config")
	errInvalidReplication = errors.New("invalid replication factor")
	errUnsupportedVersion = errors.New("unsupported version")
	errInvalidPartitions  = errors.New("invalid partitions")
	errInvalidAssignment  = errors.New("invalid replica assignment")
	errDeletionDisabled   = errors.New("delete.topic.enable is false")
	errTimedOut           = errors.New("request timed out")
	errTransactionalID    = errors.New("transactional id not authorized")
)

// kafkaErrors maps kinds of error to Kafka's, the more telling kind first: an
// error may wrap several.
var kafkaErrors = []struct {
	kind error
	is   *kerr.Error
}{
	{record.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{record.ErrStorage, kerr.KafkaStorageError},
	{record.ErrReadOnly, kerr.KafkaStorageError},
	{record.ErrNotReady, kerr.KafkaStorageError},
	{record.ErrCorruptBatch, kerr.CorruptMessage},
	{record.ErrUnsupportedMagic, kerr.InvalidRecord},
	{record.ErrInvalidBatch, kerr.InvalidRecord},
	{record.ErrBatchTooLarge, kerr.MessageTooLarge},
	{record.ErrInvalidTimestamp, kerr.InvalidTimestamp},
	{record.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
	{record.ErrDuplicateSequence, kerr.DuplicateSequenceNumber},
	{record.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
	{record.ErrInvalidTxnState, kerr.InvalidTxnState},
	{record.ErrFencedCoordinator, kerr.TransactionCoordinatorFenced},
	{record.ErrFencedEpoch, kerr.FencedLeaderEpoch},
	{record.ErrUnknownEpoch, kerr.UnknownLeaderEpoch},
	{record.ErrInvalidTopicName, kerr.InvalidTopicException},
	{record.ErrClosed, kerr.NotLeaderForPartition},
	{cluster.ErrTopicExists, kerr.TopicAlreadyExists},
	{cluster.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{cluster.ErrInvalidPartitions, kerr.InvalidPartitions},
	{errUnknownTopic, kerr.UnknownTopicOrPartition},
	{errUnknownTopicID, kerr.UnknownTopicID},
	{errInvalidRequest, kerr.InvalidRequest},
	{errInvalidAcks, kerr.InvalidRequiredAcks},
	{errInvalidConfig, kerr.InvalidConfig},
	{errInvalidReplication, kerr.InvalidReplicationFactor},
	{errUnsupportedVersion, kerr.UnsupportedVersion},
	{errInvalidPartitions, kerr.InvalidPartitions},
	{errInvalidAssignment, kerr.InvalidReplicaAssignment},
	{errDeletionDisabled, kerr.TopicDeletionDisabled},
	{errTimedOut, kerr.RequestTimedOut},
	{errTransactionalID, kerr.TransactionalIDAuthorizationFailed},
	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.NotLeaderForPartition},
}

// errorCode is the code that answers err; 0 for nil.
func errorCode(err error) int16 {
	if err == nil {
		return 0
	}
	for _, e := range kafkaErrors {
		if errors.Is(err, e.kind) {
			return e.is.Code
		}
	}
	return kerr.UnknownServerError.Code
}

// errorText is the message that goes with errorCode; nil for nil.
func errorText(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}

// codeForEndpoint answers a request for an endpoint type that is not served
// here: the wrong one, or one that does not exist.
func codeForEndpoint(endpointType int8) int16 {
	if endpointType == endpointControllers {
		return kerr.MismatchedEndpointType.Code
	}
	return kerr.UnsupportedEndpointType.Code
}

var (
	// codeNoFetchSession tells a client to begin its fetch session anew.
	codeNoFetchSession = kerr.FetchSessionIDNotFound.Code
	// codeSessionEpoch and codeSessionNames tell it the same, and that its
	// session is there.
	codeSessionEpoch = kerr.InvalidFetchSessionEpoch.Code
	codeSessionNames = kerr.FetchSessionTopicIDError.Code
	// codeOffline tells a client that a partition has no leader at present.
	codeOffline = kerr.LeaderNotAvailable.Code
	// codeRebootstrap tells a client that it has come to another cluster or
	// broker than it knows.
	codeRebootstrap = kerr.RebootstrapRequired.Code
)
