// The session by confluent-kafka-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"steps"
)

const waitMs = 30_000

type client struct {
	bootstrap string
	admin     *kafka.AdminClient
}

func main() {
	steps.Run(func(bootstrap string) (steps.Client, error) {
		admin, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": bootstrap})
		return &client{bootstrap, admin}, err
	})
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

// told gives the error that an answer carries for one thing.
func told(err kafka.Error) error {
	if err.Code() == kafka.ErrNoError {
		return nil
	}
	return err
}

func (c *client) CreateTopic(topic string, partitions int) error {
	ctx, cancel := soon()
	defer cancel()
	done, err := c.admin.CreateTopics(ctx, []kafka.TopicSpecification{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}})
	if err != nil {
		return err
	}
	return told(done[0].Error)
}

func (c *client) DeleteTopic(topic string) error {
	ctx, cancel := soon()
	defer cancel()
	done, err := c.admin.DeleteTopics(ctx, []string{topic})
	if err != nil {
		return err
	}
	return told(done[0].Error)
}

func (c *client) Topics() ([]string, error) {
	metadata, err := c.admin.GetMetadata(nil, true, waitMs)
	if err != nil {
		return nil, err
	}
	var topics []string
	for topic := range metadata.Topics {
		topics = append(topics, topic)
	}
	return topics, nil
}

func (c *client) Partitions(topic string) (int, error) {
	ctx, cancel := soon()
	defer cancel()
	described, err := c.admin.DescribeTopics(ctx, kafka.NewTopicCollectionOfTopicNames([]string{topic}))
	if err != nil {
		return 0, err
	}
	return len(described.TopicDescriptions[0].Partitions), told(described.TopicDescriptions[0].Error)
}

func (c *client) AddPartitions(topic string, total int) error {
	ctx, cancel := soon()
	defer cancel()
	done, err := c.admin.CreatePartitions(ctx, []kafka.PartitionsSpecification{{Topic: topic, IncreaseTo: total}})
	if err != nil {
		return err
	}
	return told(done[0].Error)
}

func (c *client) Produce(topic string, how steps.How, records []steps.Record) ([]int64, error) {
	config := kafka.ConfigMap{"bootstrap.servers": c.bootstrap, "enable.idempotence": how.Idempotent}
	if how.Codec != "" {
		config["compression.type"] = how.Codec
	}
	producer, err := kafka.NewProducer(&config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	answers := make(chan kafka.Event, len(records))
	for n, record := range records {
		message := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: record.Partition},
			Key: record.Key, Value: record.Value, Timestamp: record.Time, Opaque: n}
		for _, header := range record.Headers {
			message.Headers = append(message.Headers, kafka.Header{Key: header.Key, Value: header.Value})
		}
		if err := producer.Produce(message, answers); err != nil {
			return nil, err
		}
	}
	offsets := make([]int64, len(records))
	for range records {
		select {
		case event := <-answers:
			message := event.(*kafka.Message)
			if message.TopicPartition.Error != nil {
				return nil, message.TopicPartition.Error
			}
			offsets[message.Opaque.(int)] = int64(message.TopicPartition.Offset)
		case <-time.After(30 * time.Second):
			return nil, errors.New("no acknowledgement")
		}
	}
	return offsets, nil
}

func (c *client) consumer(group string) (*kafka.Consumer, error) {
	return kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": c.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
		"enable.auto.commit": false, "heartbeat.interval.ms": 500})
}

func from(message *kafka.Message) steps.Record {
	read := steps.Record{Key: message.Key, Value: message.Value, Time: message.Timestamp,
		Partition: message.TopicPartition.Partition, Offset: int64(message.TopicPartition.Offset)}
	for _, header := range message.Headers {
		read.Headers = append(read.Headers, steps.Header{Key: header.Key, Value: header.Value})
	}
	return read
}

func (c *client) Consume(topic string, partition int32, at int64, count int) ([]steps.Record, error) {
	consumer, err := c.consumer("reader")
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	if err := consumer.Assign([]kafka.TopicPartition{{Topic: &topic, Partition: partition, Offset: kafka.Offset(at)}}); err != nil {
		return nil, err
	}
	var read []steps.Record
	for len(read) < count {
		message, err := consumer.ReadMessage(30 * time.Second)
		if err != nil {
			return read, err
		}
		read = append(read, from(message))
	}
	return read, nil
}

func (c *client) offset(topic string, partition int32, spec kafka.OffsetSpec) (int64, error) {
	ctx, cancel := soon()
	defer cancel()
	where := kafka.TopicPartition{Topic: &topic, Partition: partition}
	listed, err := c.admin.ListOffsets(ctx, map[kafka.TopicPartition]kafka.OffsetSpec{where: spec})
	if err != nil {
		return 0, err
	}
	for _, info := range listed.ResultInfos {
		return int64(info.Offset), told(info.Error)
	}
	return 0, errors.New("nothing was told")
}

func (c *client) Bounds(topic string, partition int32) (int64, int64, error) {
	first, err := c.offset(topic, partition, kafka.EarliestOffsetSpec)
	if err != nil {
		return 0, 0, err
	}
	next, err := c.offset(topic, partition, kafka.LatestOffsetSpec)
	return first, next, err
}

func (c *client) OffsetAt(topic string, partition int32, at time.Time) (int64, error) {
	return c.offset(topic, partition, kafka.NewOffsetSpecForTimestamp(at.UnixMilli()))
}

func (c *client) DeleteRecords(topic string, partition int32, before int64) error {
	ctx, cancel := soon()
	defer cancel()
	done, err := c.admin.DeleteRecords(ctx, []kafka.TopicPartition{{Topic: &topic, Partition: partition, Offset: kafka.Offset(before)}})
	if err != nil {
		return err
	}
	return done.DeleteRecordsResults[0].TopicPartition.Error
}

type member struct {
	consumer *kafka.Consumer
	records  chan steps.Record
	stop     chan struct{}
	ended    chan struct{}
	close    sync.Once
}

func (c *client) Join(group, topic string) (steps.Member, error) {
	consumer, err := c.consumer(group)
	if err != nil {
		return nil, err
	}
	if err := consumer.Subscribe(topic, nil); err != nil {
		return nil, err
	}
	m := &member{consumer: consumer, records: make(chan steps.Record), stop: make(chan struct{}), ended: make(chan struct{})}
	go m.read()
	return m, nil
}

func (m *member) read() {
	defer close(m.ended)
	for {
		select {
		case <-m.stop:
			return
		default:
		}
		message, err := m.consumer.ReadMessage(100 * time.Millisecond)
		if err != nil {
			continue
		}
		select {
		case m.records <- from(message):
		case <-m.stop:
			return
		}
	}
}

func (m *member) Records() <-chan steps.Record { return m.records }

func (m *member) Commit(topic string, record steps.Record) error {
	next := kafka.TopicPartition{Topic: &topic, Partition: record.Partition, Offset: kafka.Offset(record.Offset + 1)}
	_, err := m.consumer.CommitOffsets([]kafka.TopicPartition{next})
	return err
}

func (m *member) Close() (err error) {
	m.close.Do(func() {
		close(m.stop)
		<-m.ended
		err = m.consumer.Close()
	})
	return err
}

func (c *client) Commit(group, topic string, partition int32, offset int64, metadata string) error {
	ctx, cancel := soon()
	defer cancel()
	commit := kafka.TopicPartition{Topic: &topic, Partition: partition, Offset: kafka.Offset(offset), Metadata: &metadata}
	done, err := c.admin.AlterConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{{Group: group, Partitions: []kafka.TopicPartition{commit}}})
	if err != nil {
		return err
	}
	return done.ConsumerGroupsTopicPartitions[0].Partitions[0].Error
}

func (c *client) Committed(group, topic string, partition int32) (int64, string, error) {
	ctx, cancel := soon()
	defer cancel()
	asked := []kafka.TopicPartition{{Topic: &topic, Partition: partition}}
	found, err := c.admin.ListConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{{Group: group, Partitions: asked}})
	if err != nil {
		return 0, "", err
	}
	told := found.ConsumerGroupsTopicPartitions[0].Partitions[0]
	if told.Offset == kafka.OffsetInvalid {
		return -1, "", told.Error
	}
	metadata := ""
	if told.Metadata != nil {
		metadata = *told.Metadata
	}
	return int64(told.Offset), metadata, told.Error
}

func (c *client) Groups() ([]string, error) {
	ctx, cancel := soon()
	defer cancel()
	listed, err := c.admin.ListConsumerGroups(ctx)
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, group := range listed.Valid {
		groups = append(groups, group.GroupID)
	}
	return groups, errors.Join(listed.Errors...)
}

func (c *client) DescribeGroup(group string) (string, int, error) {
	ctx, cancel := soon()
	defer cancel()
	described, err := c.admin.DescribeConsumerGroups(ctx, []string{group})
	if err != nil {
		return "", 0, err
	}
	found := described.ConsumerGroupDescriptions[0]
	return found.State.String(), len(found.Members), told(found.Error)
}

func (c *client) DeleteGroup(group string) error {
	ctx, cancel := soon()
	defer cancel()
	done, err := c.admin.DeleteConsumerGroups(ctx, []string{group})
	if err != nil {
		return err
	}
	return told(done.ConsumerGroupResults[0].Error)
}

func (c *client) Config(topic, name string) (string, error) {
	ctx, cancel := soon()
	defer cancel()
	described, err := c.admin.DescribeConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: topic}})
	if err != nil {
		return "", err
	}
	entry, found := described[0].Config[name]
	if !found {
		return "", fmt.Errorf("%s is not described: %w", name, told(described[0].Error))
	}
	return entry.Value, nil
}

func (c *client) SetConfig(topic, name, value string) error {
	ctx, cancel := soon()
	defer cancel()
	entry := kafka.ConfigEntry{Name: name, Value: value, IncrementalOperation: kafka.AlterConfigOpTypeSet}
	done, err := c.admin.IncrementalAlterConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: topic, Config: []kafka.ConfigEntry{entry}}})
	if err != nil {
		return err
	}
	return told(done[0].Error)
}

func code(err error) kafka.ErrorCode {
	var known kafka.Error
	if errors.As(err, &known) {
		return known.Code()
	}
	return kafka.ErrNoError
}

func (c *client) IsExists(err error) bool  { return code(err) == kafka.ErrTopicAlreadyExists }
func (c *client) IsUnknown(err error) bool { return code(err) == kafka.ErrUnknownTopicOrPart }
