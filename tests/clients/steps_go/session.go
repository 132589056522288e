package steps

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	partitions   = 4
	perPartition = 25
	stepMax      = 60 * time.Second
)

type session struct {
	client  Client
	mark    string
	topic   string
	results *os.File
	made    []Record
}

// Run takes the client through all steps and exits. The arguments of the program are the bootstrap address and the output folder.
func Run(connect func(bootstrap string) (Client, error)) {
	results, err := os.Create(filepath.Join(os.Args[2], "results.txt"))
	if err != nil {
		panic(err)
	}
	client, err := connect(os.Args[1])
	if err != nil {
		panic(err)
	}
	mark := make([]byte, 4)
	rand.Read(mark)
	s := &session{client: client, mark: hex.EncodeToString(mark), results: results}
	s.topic = s.name("session")
	s.step("create_topic", s.createTopic)
	s.step("produce", s.produce)
	for _, codec := range Codecs {
		s.step("produce_"+codec, func() error { return s.codec(codec) })
	}
	s.step("produce_idempotent", s.idempotent)
	s.step("consume_all", s.consumeAll)
	s.step("group_of_three", s.groupOfThree)
	s.step("commit_resume", s.commitResume)
	s.step("seek_by_time", s.seekByTime)
	s.step("offsets", s.offsets)
	s.step("describe_configs", s.describeConfigs)
	s.step("alter_configs", s.alterConfigs)
	s.step("create_partitions", s.createPartitions)
	s.step("delete_records", s.deleteRecords)
	s.step("list_groups", s.listGroups)
	s.step("describe_group", s.describeGroup)
	s.step("delete_group", s.deleteGroup)
	s.step("delete_topic", s.deleteTopic)
	s.step("unknown_topic", s.unknownTopic)
	os.Exit(0)
}

func (s *session) name(text string) string { return text + "-" + s.mark }

// step runs one step. One that hangs is left behind and has failed.
func (s *session) step(name string, run func() error) {
	begun := time.Now()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if fault := recover(); fault != nil {
				done <- fmt.Errorf("panic: %v", fault)
			}
		}()
		done <- run()
	}()
	var err error
	select {
	case err = <-done:
	case <-time.After(stepMax):
		err = errors.New("the step took too long")
	}
	verdict := "PASS"
	if errors.Is(err, ErrSkip) {
		verdict = "SKIP"
	} else if err != nil {
		verdict = "FAIL"
	}
	fmt.Printf("%s %s %.1f s %v\n", verdict, name, time.Since(begun).Seconds(), err)
	fmt.Fprintf(s.results, "%s %s\n", verdict, name)
}

// eventually asks until the answer is true.
func eventually(what string, condition func() (bool, error)) error {
	deadline := time.Now().Add(40 * time.Second)
	for {
		met, err := condition()
		if errors.Is(err, ErrSkip) || (met && err == nil) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not in time: %s (%v)", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func same[T comparable](what string, got, expected T) error {
	if got != expected {
		return fmt.Errorf("%s: got %v, expected %v", what, got, expected)
	}
	return nil
}

func sameRecord(got, expected Record) error {
	if !bytes.Equal(got.Key, expected.Key) || !bytes.Equal(got.Value, expected.Value) || (got.Value == nil) != (expected.Value == nil) {
		return fmt.Errorf("got %q=%q, expected %q=%q", got.Key, got.Value, expected.Key, expected.Value)
	}
	if got.Offset != expected.Offset || got.Partition != expected.Partition {
		return fmt.Errorf("got %d of %d, expected %d of %d", got.Offset, got.Partition, expected.Offset, expected.Partition)
	}
	if !expected.Time.IsZero() && !got.Time.Equal(expected.Time) {
		return fmt.Errorf("got the time %v, expected %v", got.Time, expected.Time)
	}
	equal := func(a, b Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }
	if !slices.EqualFunc(got.Headers, expected.Headers, equal) {
		return fmt.Errorf("got the headers %v, expected %v", got.Headers, expected.Headers)
	}
	return nil
}

// some makes so many records for a partition, with keys, headers and times in milliseconds.
func some(partition int32, count int, text string) []Record {
	base := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	records := make([]Record, count)
	for n := range records {
		records[n] = Record{
			Key:       fmt.Appendf(nil, "key-%d", n),
			Value:     fmt.Appendf(nil, "%s-%d-%d-%s", text, partition, n, strings.Repeat("x", 100)),
			Headers:   []Header{{"n", fmt.Append(nil, n)}, {"empty", []byte{}}},
			Time:      base.Add(time.Duration(n) * time.Second),
			Partition: partition,
			Offset:    int64(n),
		}
	}
	return records
}

// writeAndRead produces to the partition and reads the same back.
func (s *session) writeAndRead(topic string, how How, records []Record) error {
	offsets, err := s.client.Produce(topic, how, records)
	if err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	for n, offset := range offsets {
		if offset != records[n].Offset {
			return fmt.Errorf("record %d has offset %d, expected %d", n, offset, records[n].Offset)
		}
	}
	return s.reads(topic, records)
}

func (s *session) reads(topic string, records []Record) error {
	found, err := s.client.Consume(topic, records[0].Partition, records[0].Offset, len(records))
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	if err := same("records", len(found), len(records)); err != nil {
		return err
	}
	for n := range records {
		if err := sameRecord(found[n], records[n]); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
	}
	return nil
}

func (s *session) create(topic string, count int) error {
	if err := s.client.CreateTopic(topic, count); err != nil {
		return fmt.Errorf("create %s: %w", topic, err)
	}
	return eventually("the topic is known", func() (bool, error) {
		found, err := s.client.Partitions(topic)
		return found == count, err
	})
}
