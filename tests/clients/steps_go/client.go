// Package steps is the session that every Go client goes through. A client brings an adapter.
package steps

import (
	"errors"
	"time"
)

// ErrSkip is what an adapter answers for something that its client does not have.
var ErrSkip = errors.New("this client does not have it")

// Codecs are the compression codecs by Kafka's names.
var Codecs = []string{"gzip", "snappy", "lz4", "zstd"}

type Header struct {
	Key   string
	Value []byte
}

// Record is one record; a nil Value is a null.
type Record struct {
	Key, Value []byte
	Headers    []Header
	Time       time.Time
	Partition  int32
	Offset     int64
}

// How says how records are produced.
type How struct {
	Codec      string // "" is none
	Idempotent bool
}

// Member is a consumer in a group.
type Member interface {
	// Records gives what the member reads, from the earliest on where nothing was committed.
	Records() <-chan Record
	// Commit commits that the record and all before it were read.
	Commit(topic string, record Record) error
	Close() error
}

// Client is what a client can be asked. Every call has its own deadline.
type Client interface {
	CreateTopic(topic string, partitions int) error
	DeleteTopic(topic string) error
	Topics() ([]string, error)
	Partitions(topic string) (int, error)
	AddPartitions(topic string, total int) error

	// Produce writes each record to the partition that it names, and gives the offsets.
	Produce(topic string, how How, records []Record) ([]int64, error)
	// Consume reads count records of a partition from an offset on.
	Consume(topic string, partition int32, from int64, count int) ([]Record, error)
	Bounds(topic string, partition int32) (first, next int64, err error)
	// OffsetAt is the first offset whose record is not older, or -1.
	OffsetAt(topic string, partition int32, at time.Time) (int64, error)
	DeleteRecords(topic string, partition int32, before int64) error

	Join(group, topic string) (Member, error)
	Commit(group, topic string, partition int32, offset int64, metadata string) error
	// Committed gives -1 where nothing is committed.
	Committed(group, topic string, partition int32) (offset int64, metadata string, err error)
	Groups() ([]string, error)
	// DescribeGroup gives Kafka's name of the state and the number of members.
	DescribeGroup(group string) (state string, members int, err error)
	DeleteGroup(group string) error

	Config(topic, name string) (string, error)
	SetConfig(topic, name, value string) error

	// IsExists and IsUnknown recognise TOPIC_ALREADY_EXISTS and UNKNOWN_TOPIC_OR_PARTITION.
	IsExists(err error) bool
	IsUnknown(err error) bool
}
