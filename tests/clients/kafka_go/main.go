// The session by segmentio's kafka-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"steps"
)

type client struct {
	bootstrap string
	plain     *kafka.Client
}

func main() {
	steps.Run(func(bootstrap string) (steps.Client, error) {
		// The transport answers from metadata that it keeps this long, and does not try again.
		transport := &kafka.Transport{MetadataTTL: 100 * time.Millisecond}
		return &client{bootstrap, &kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: 30 * time.Second, Transport: transport}}, nil
	})
}

var background = context.Background()

func (c *client) CreateTopic(topic string, partitions int) error {
	config := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
	done, err := c.plain.CreateTopics(background, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return done.Errors[topic]
}

func (c *client) DeleteTopic(topic string) error {
	done, err := c.plain.DeleteTopics(background, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return done.Errors[topic]
}

func (c *client) metadata(topics ...string) ([]kafka.Topic, error) {
	// Not by the client's transport, which answers from what it last knew.
	connection, err := kafka.Dial("tcp", c.bootstrap)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	partitions, err := connection.ReadPartitions(topics...)
	found := map[string]*kafka.Topic{}
	var order []kafka.Topic
	for _, partition := range partitions {
		if found[partition.Topic] == nil {
			found[partition.Topic] = &kafka.Topic{Name: partition.Topic}
		}
		found[partition.Topic].Partitions = append(found[partition.Topic].Partitions, partition)
	}
	for _, topic := range found {
		order = append(order, *topic)
	}
	return order, err
}

func (c *client) Topics() ([]string, error) {
	metadata, err := c.metadata()
	var topics []string
	for _, topic := range metadata {
		topics = append(topics, topic.Name)
	}
	return topics, err
}

func (c *client) Partitions(topic string) (int, error) {
	metadata, err := c.metadata(topic)
	if err != nil || len(metadata) != 1 {
		return 0, err
	}
	return len(metadata[0].Partitions), nil
}

func (c *client) AddPartitions(topic string, total int) error {
	config := kafka.TopicPartitionsConfig{Name: topic, Count: int32(total)}
	done, err := c.plain.CreatePartitions(background, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{config}})
	if err != nil {
		return err
	}
	return done.Errors[topic]
}

// Produce goes by Client.Produce: kafka-go's Writer tells no offsets and knows no idempotence.
func (c *client) Produce(topic string, how steps.How, records []steps.Record) ([]int64, error) {
	if how.Idempotent {
		return nil, steps.ErrSkip
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		offsets, err := c.produceOnce(topic, how, records)
		if err == nil || time.Now().After(deadline) {
			return offsets, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// produceOnce fails while the partition's leader is not known yet, to the transport or to the broker.
func (c *client) produceOnce(topic string, how steps.How, records []steps.Record) ([]int64, error) {
	codecs := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	sent := make([]kafka.Record, len(records))
	for n, record := range records {
		sent[n] = kafka.Record{Time: record.Time, Key: kafka.NewBytes(record.Key), Value: kafka.NewBytes(record.Value)}
		for _, header := range record.Headers {
			sent[n].Headers = append(sent[n].Headers, kafka.Header{Key: header.Key, Value: header.Value})
		}
	}
	done, err := c.plain.Produce(background, &kafka.ProduceRequest{Topic: topic, Partition: int(records[0].Partition), RequiredAcks: kafka.RequireAll,
		Compression: codecs[how.Codec], Records: kafka.NewRecordReader(sent...)})
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, len(records))
	for n := range offsets {
		offsets[n] = done.BaseOffset + int64(n)
	}
	return offsets, done.Error
}

func from(message kafka.Message) steps.Record {
	read := steps.Record{Key: message.Key, Value: message.Value, Time: message.Time, Partition: int32(message.Partition), Offset: message.Offset}
	for _, header := range message.Headers {
		read.Headers = append(read.Headers, steps.Header{Key: header.Key, Value: header.Value})
	}
	return read
}

func (c *client) Consume(topic string, partition int32, at int64, count int) ([]steps.Record, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{c.bootstrap}, Topic: topic, Partition: int(partition)})
	defer reader.Close()
	if err := reader.SetOffset(at); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(background, 30*time.Second)
	defer cancel()
	var read []steps.Record
	for len(read) < count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return read, err
		}
		read = append(read, from(message))
	}
	return read, nil
}

func (c *client) Bounds(topic string, partition int32) (int64, int64, error) {
	connection, err := kafka.DialLeader(background, "tcp", c.bootstrap, topic, int(partition))
	if err != nil {
		return 0, 0, err
	}
	defer connection.Close()
	return connection.ReadOffsets()
}

func (c *client) OffsetAt(topic string, partition int32, at time.Time) (int64, error) {
	connection, err := kafka.DialLeader(background, "tcp", c.bootstrap, topic, int(partition))
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	return connection.ReadOffset(at)
}

func (c *client) DeleteRecords(string, int32, int64) error { return steps.ErrSkip }

type member struct {
	reader  *kafka.Reader
	records chan steps.Record
	stop    context.CancelFunc
	close   sync.Once
}

func (c *client) Join(group, topic string) (steps.Member, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{c.bootstrap}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 500 * time.Millisecond, MaxWait: 500 * time.Millisecond})
	ctx, stop := context.WithCancel(background)
	m := &member{reader: reader, records: make(chan steps.Record), stop: stop}
	go func() {
		for ctx.Err() == nil {
			message, err := reader.FetchMessage(ctx)
			if err != nil {
				continue
			}
			select {
			case m.records <- from(message):
			case <-ctx.Done():
			}
		}
	}()
	return m, nil
}

func (m *member) Records() <-chan steps.Record { return m.records }

func (m *member) Commit(topic string, record steps.Record) error {
	return m.reader.CommitMessages(background, kafka.Message{Topic: topic, Partition: int(record.Partition), Offset: record.Offset})
}

func (m *member) Close() (err error) {
	m.close.Do(func() {
		m.stop()
		err = m.reader.Close()
	})
	return err
}

func (c *client) Commit(group, topic string, partition int32, offset int64, metadata string) error {
	commit := kafka.OffsetCommit{Partition: int(partition), Offset: offset, Metadata: metadata}
	done, err := c.plain.OffsetCommit(background, &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {commit}}})
	if err != nil {
		return err
	}
	return done.Topics[topic][0].Error
}

func (c *client) Committed(group, topic string, partition int32) (int64, string, error) {
	done, err := c.plain.OffsetFetch(background, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {int(partition)}}})
	if err != nil {
		return 0, "", err
	}
	if len(done.Topics[topic]) != 1 {
		return 0, "", fmt.Errorf("%d partitions were told: %w", len(done.Topics[topic]), done.Error)
	}
	found := done.Topics[topic][0]
	return found.CommittedOffset, found.Metadata, errors.Join(done.Error, found.Error)
}

func (c *client) Groups() ([]string, error) {
	done, err := c.plain.ListGroups(background, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, group := range done.Groups {
		groups = append(groups, group.GroupID)
	}
	return groups, done.Error
}

func (c *client) DescribeGroup(group string) (string, int, error) {
	done, err := c.plain.DescribeGroups(background, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return "", 0, err
	}
	return done.Groups[0].GroupState, len(done.Groups[0].Members), done.Groups[0].Error
}

func (c *client) DeleteGroup(group string) error {
	done, err := c.plain.DeleteGroups(background, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return done.Errors[group]
}

func (c *client) Config(topic, name string) (string, error) {
	resource := kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name}}
	done, err := c.plain.DescribeConfigs(background, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{resource}})
	if err != nil {
		return "", err
	}
	if len(done.Resources) != 1 || len(done.Resources[0].ConfigEntries) != 1 {
		return "", fmt.Errorf("described: %+v", done.Resources)
	}
	return done.Resources[0].ConfigEntries[0].ConfigValue, done.Resources[0].Error
}

func (c *client) SetConfig(topic, name, value string) error {
	config := kafka.IncrementalAlterConfigsRequestConfig{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}
	resource := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
		Configs: []kafka.IncrementalAlterConfigsRequestConfig{config}}
	done, err := c.plain.IncrementalAlterConfigs(background,
		&kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{resource}})
	if err != nil {
		return err
	}
	return done.Resources[0].Error
}

func (c *client) IsExists(err error) bool  { return errors.Is(err, kafka.TopicAlreadyExists) }
func (c *client) IsUnknown(err error) bool { return errors.Is(err, kafka.UnknownTopicOrPartition) }
