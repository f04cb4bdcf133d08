package linearroad;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** The part that serializers of mutable objects with a few fields have in common. */
abstract class PlainSerializer<T> extends TypeSerializerSingleton<T> {
    @Override
    public boolean isImmutableType() {
        return false;
    }

    @Override
    public int getLength() {
        return -1;
    }

    @Override
    public T copy(T from) {
        return copy(from, createInstance());
    }

    @Override
    public T deserialize(DataInputView from) throws IOException {
        return deserialize(createInstance(), from);
    }

    @Override
    public void copy(DataInputView from, DataOutputView to) throws IOException {
        serialize(deserialize(from), to);
    }
}
