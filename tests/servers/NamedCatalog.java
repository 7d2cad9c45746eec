import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.catalog.DeltaCatalog;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog with a name of its own that opens tables as Unity Catalog's connector does: by Delta's catalog over another one. */
public class NamedCatalog extends DeltaCatalog {
    private String name;

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
        setDelegateCatalog(SparkSession.active().sessionState().catalogManager().v2SessionCatalog());
    }

    @Override
    public String name() {
        return name;
    }
}
