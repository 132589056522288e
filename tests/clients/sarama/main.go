// The session by sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"steps"
)

type client struct {
	bootstrap []string
	plain     sarama.Client
	admin     sarama.ClusterAdmin
}

func main() {
	steps.Run(func(bootstrap string) (steps.Client, error) {
		plain, err := sarama.NewClient([]string{bootstrap}, config())
		if err != nil {
			return nil, err
		}
		admin, err := sarama.NewClusterAdmin([]string{bootstrap}, config())
		return &client{[]string{bootstrap}, plain, admin}, err
	})
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	return config
}

func (c *client) CreateTopic(topic string, partitions int) error {
	return c.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false)
}

func (c *client) DeleteTopic(topic string) error { return c.admin.DeleteTopic(topic) }

func (c *client) Topics() ([]string, error) {
	details, err := c.admin.ListTopics()
	var topics []string
	for topic := range details {
		topics = append(topics, topic)
	}
	return topics, err
}

func (c *client) Partitions(topic string) (int, error) {
	described, err := c.admin.DescribeTopics([]string{topic})
	if err != nil {
		return 0, err
	}
	if described[0].Err != sarama.ErrNoError {
		return 0, described[0].Err
	}
	return len(described[0].Partitions), nil
}

func (c *client) AddPartitions(topic string, total int) error {
	return c.admin.CreatePartitions(topic, int32(total), nil, false)
}

func (c *client) Produce(topic string, how steps.How, records []steps.Record) ([]int64, error) {
	codecs := map[string]sarama.CompressionCodec{
		"gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	config := config()
	config.Producer.Compression = codecs[how.Codec]
	if how.Idempotent {
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(c.bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, len(records))
	for n, record := range records {
		messages[n] = &sarama.ProducerMessage{Topic: topic, Partition: record.Partition, Key: sarama.ByteEncoder(record.Key), Timestamp: record.Time}
		if record.Value != nil {
			messages[n].Value = sarama.ByteEncoder(record.Value)
		}
		for _, header := range record.Headers {
			messages[n].Headers = append(messages[n].Headers, sarama.RecordHeader{Key: []byte(header.Key), Value: header.Value})
		}
	}
	if err := producer.SendMessages(messages); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(records))
	for n, message := range messages {
		offsets[n] = message.Offset
	}
	return offsets, nil
}

func from(message *sarama.ConsumerMessage) steps.Record {
	read := steps.Record{Key: message.Key, Value: message.Value, Time: message.Timestamp, Partition: message.Partition, Offset: message.Offset}
	for _, header := range message.Headers {
		read.Headers = append(read.Headers, steps.Header{Key: string(header.Key), Value: header.Value})
	}
	return read
}

func (c *client) Consume(topic string, partition int32, at int64, count int) ([]steps.Record, error) {
	consumer, err := sarama.NewConsumer(c.bootstrap, config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, partition, at)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var read []steps.Record
	for len(read) < count {
		select {
		case message := <-reader.Messages():
			read = append(read, from(message))
		case <-time.After(30 * time.Second):
			return read, fmt.Errorf("%d of %d records", len(read), count)
		}
	}
	return read, nil
}

func (c *client) Bounds(topic string, partition int32) (int64, int64, error) {
	first, err := c.plain.GetOffset(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return 0, 0, err
	}
	next, err := c.plain.GetOffset(topic, partition, sarama.OffsetNewest)
	return first, next, err
}

func (c *client) OffsetAt(topic string, partition int32, at time.Time) (int64, error) {
	return c.plain.GetOffset(topic, partition, at.UnixMilli())
}

func (c *client) DeleteRecords(topic string, partition int32, before int64) error {
	return c.admin.DeleteRecords(topic, map[int32]int64{partition: before})
}

// member is a sarama.ConsumerGroup with its handler.
type member struct {
	group   sarama.ConsumerGroup
	session sarama.ConsumerGroupSession
	lock    sync.Mutex
	records chan steps.Record
	stop    context.CancelFunc
	ended   chan struct{}
}

func (c *client) Join(group, topic string) (steps.Member, error) {
	consumer, err := sarama.NewConsumerGroup(c.bootstrap, group, config())
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{group: consumer, records: make(chan steps.Record), stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			if err := consumer.Consume(ctx, []string{topic}, m); err != nil && ctx.Err() == nil {
				fmt.Println("group", group, err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return m, nil
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = session
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case m.records <- from(message):
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) Records() <-chan steps.Record { return m.records }

func (m *member) Commit(topic string, record steps.Record) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.session == nil {
		return errors.New("no session")
	}
	m.session.MarkOffset(topic, record.Partition, record.Offset+1, "")
	m.session.Commit()
	return nil
}

func (m *member) Close() error {
	m.stop()
	<-m.ended
	if err := m.group.Close(); err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
		return err
	}
	return nil
}

func (c *client) Commit(group, topic string, partition int32, offset int64, metadata string) error {
	manager, err := sarama.NewOffsetManagerFromClient(group, c.plain)
	if err != nil {
		return err
	}
	defer manager.Close()
	managed, err := manager.ManagePartition(topic, partition)
	if err != nil {
		return err
	}
	managed.MarkOffset(offset, metadata)
	manager.Commit()
	managed.AsyncClose()
	return nil
}

func (c *client) Committed(group, topic string, partition int32) (int64, string, error) {
	found, err := c.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {partition}})
	if err != nil {
		return 0, "", err
	}
	block := found.GetBlock(topic, partition)
	if block.Err != sarama.ErrNoError {
		return 0, "", block.Err
	}
	return block.Offset, block.Metadata, nil
}

func (c *client) Groups() ([]string, error) {
	listed, err := c.admin.ListConsumerGroups()
	var groups []string
	for group := range listed {
		groups = append(groups, group)
	}
	return groups, err
}

func (c *client) DescribeGroup(group string) (string, int, error) {
	described, err := c.admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return "", 0, err
	}
	if described[0].Err != sarama.ErrNoError {
		return "", 0, described[0].Err
	}
	return described[0].State, len(described[0].Members), nil
}

func (c *client) DeleteGroup(group string) error { return c.admin.DeleteConsumerGroup(group) }

func (c *client) Config(topic, name string) (string, error) {
	entries, err := c.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{name}})
	if err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("%d settings were described", len(entries))
	}
	return entries[0].Value, nil
}

func (c *client) SetConfig(topic, name, value string) error {
	set := map[string]sarama.IncrementalAlterConfigsEntry{name: {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}}
	return c.admin.IncrementalAlterConfig(sarama.TopicResource, topic, set, false)
}

func (c *client) IsExists(err error) bool  { return errors.Is(err, sarama.ErrTopicAlreadyExists) }
func (c *client) IsUnknown(err error) bool { return errors.Is(err, sarama.ErrUnknownTopicOrPartition) }
